"""Two comparisons that asked the same, of two machines, say: what differs, and each candidate's ratio. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from truestep.compare.against import Ratio, pairs, ratios
from truestep.compare.protocol import Protocol
from truestep.compare.standing import Record, budgets
from truestep.errors import ProtocolError
from truestep.pages.words import listing

MAY_DIFFER = (
    "seeds",
    "initial_weights",
    "pilot",
    "target_from",
    "candidates",
    "order",
    "warmup_attempts",
    "threads",
    "retries",
    "device",
    "versions",
    "jobs",
    "timeout_seconds",
    "startup_timeout_seconds",
)
"""The fields of a protocol that two comparisons may have different: where and how they ran, and how much of it. Every other
field, one that is yet to come included, says what was asked, and must be the same: of two versions of torch that describe a
model or an optimizer otherwise, the pair is refused."""

Side = tuple[Protocol, Sequence[Record]]
"""One of the two."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A field of the protocol that differs, with its value on either side, as JSON holds it."""

    field: str
    left: Any
    right: Any


@dataclass(frozen=True, kw_only=True)
class Between:
    """What holds between two comparisons, the left and the right."""

    differences: tuple[Difference, ...]
    candidates: tuple[str, ...]
    """Those of both, in the left's order."""
    left_only: tuple[str, ...]
    right_only: tuple[str, ...]
    pairs: Mapping[str, int]
    """Candidate -> seeds that both sides have run."""
    ratios: Mapping[str, Mapping[str, Ratio | None]]
    """Candidate -> clock -> how many times less the right took than the left; None where there is no ratio."""

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"schema": 1} | asdict(self)


def between(left: Side, right: Side) -> Between:
    """What holds between `left` and `right`.

    A pair is a seed of one candidate that both have run. The p-values are plain: nothing is claimed over all candidates,
    and where the weights at the start differ, the pairs share the data's order alone.

    Raises:
        ProtocolError: they did not ask the same; the first field that differs is named, with both values.
    """
    (ours, our_records), (theirs, their_records) = left, right
    found = _differences(ours, theirs)
    shared = tuple(name for name in ours.candidates if name in theirs.candidates)
    tau = budgets(ours, [*our_records, *their_records])
    paired = {name: pairs(_of(their_records, name), _of(our_records, name)) for name in shared}
    return Between(
        differences=found,
        candidates=shared,
        left_only=tuple(name for name in ours.candidates if name not in shared),
        right_only=tuple(name for name in theirs.candidates if name not in shared),
        pairs={name: len(some) for name, some in paired.items()},
        ratios={name: ratios(some, tau) for name, some in paired.items()},
    )


def _of(records: Sequence[Record], candidate: str) -> list[Record]:
    return [record for record in records if record["candidate"] == candidate]


def _differences(ours: Protocol, theirs: Protocol) -> tuple[Difference, ...]:
    """Every difference that may be; ProtocolError at the first that may not."""
    left, right = ours.as_dict(), theirs.as_dict()
    for side, other in ((left, right), (right, left)):  # the same seed's, where both have it: the rest differs with the seeds
        side["initial_weights"] = {seed: one for seed, one in side["initial_weights"].items() if seed in other["initial_weights"]}
    found = [Difference(field=name, left=left[name], right=right[name]) for name in left if left[name] != right[name]]
    for one in found:
        if one.field not in MAY_DIFFER:
            raise _refused(one, "what was asked has to be the same on both sides")
    if ours.baseline != theirs.baseline:
        baselines = Difference(field="baseline", left=ours.baseline, right=theirs.baseline)
        raise _refused(baselines, "the verdicts of either are against its baseline, the first candidate")
    return tuple(found)


def _refused(one: Difference, why: str) -> ProtocolError:
    return ProtocolError(
        f"two comparisons of different {one.field.replace('_', ' ')} cannot stand side by side",
        hint=f"{why}; compare again with the same, or read each report by itself. What may differ: "
        f"{listing([name.replace('_', ' ') for name in MAY_DIFFER])}",
        field=one.field,
        left=_short(one.left),
        right=_short(one.right),
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 400 else f"{text[:397]}..."
