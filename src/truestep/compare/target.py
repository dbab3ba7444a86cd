"""The target that the runs of a pilot set: the median of their best qualities, made easier by a stated slack. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from truestep.compare.death import may_be_made_again
from truestep.compare.protocol import Protocol
from truestep.compare.standing import Record, best_quality
from truestep.errors import ProtocolError, RunError
from truestep.pages.words import between, significant

SLACK = 0.01
"""Of the median: how far the target lies from it, where nobody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """What a pilot found: median of the best validation qualities, and the slack by which the target is easier."""

    protocol_hash: str
    """Of the pilot's own protocol, which lies beside its records."""
    candidate: str
    best: Mapping[str, float]
    """Seed -> the best validation quality of its run."""
    median: float
    slack: float
    target: float

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """Where the target comes from, in words.

        >>> str(Pilot(protocol_hash="", candidate="fp32", best={"100": 0.5, "101": 0.75}, median=0.625, slack=0.125, target=0.5))
        'a pilot of 2 runs of fp32 on seeds 100 to 101 (best 0.500 to 0.750): their median best 0.6250, made easier by 0.125'
        """
        seeds, found = list(self.best), [significant(value) for value in sorted(self.best.values())]
        return (
            f"a pilot of {len(seeds)} runs of {self.candidate} on seeds {seeds[0]} to {seeds[-1]} (best "
            f"{between(found[0], found[-1])}): their median best {significant(self.median, 4)}, made easier by "
            f"{significant(self.slack)}"
        )


def found(protocol: Protocol, records: Sequence[Record], *, slack: float | None) -> Pilot:
    """The target that the records of a whole pilot set: the median of their best qualities, less `slack`.

    `slack` is in the quality's unit; None is a hundredth of the median.

    Raises:
        RunError: a run did not come to its end; it is named.
        ProtocolError: the median is 0, and no slack was given.
    """
    best = {}
    for record in sorted(records, key=lambda record: int(record["seed"])):
        quality = best_quality(record, protocol.direction)
        if record["status"] not in ("reached", "budget") or quality is None:
            again = may_be_made_again(record, budget_seconds=protocol.budget_seconds)
            raise RunError(
                f"the pilot's run on seed {record['seed']} ended as {record['status']}: {record['detail'] or 'no quality'}",
                hint=("--resume --rerun-failed runs it again; or " if again else "")
                + "mend the task and give another --out, or declare a target yourself with --target",
                seed=record["seed"],
            )
        best[str(record["seed"])] = quality
    median = statistics.median(best.values())
    if median == 0 and slack is None:
        raise ProtocolError(
            "the pilot's median best is 0, and a hundredth of that is no slack",
            hint=f"its runs are kept: go on with --resume and --slack X, the loss of {protocol.quality} that is allowed",
        )
    given = SLACK * abs(median) if slack is None else slack
    return Pilot(
        protocol_hash=protocol.hash,
        candidate=protocol.baseline,
        best=best,
        median=median,
        slack=given,
        target=median - given if protocol.direction == "higher" else median + given,
    )
