"""What a ledger adds up to. Pure: from lines to one value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from truestep.engine.counts import Counts
from truestep.errors import LedgerError
from truestep.ledger.records import Record, counts_of, counts_record, encoded


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A run's totals. Attempts that were rolled back are waste and appear in nothing else."""

    run_id: str
    created: str
    protocol_hash: str | None
    policies: tuple[str, ...]
    """The policies of the attempts, in the order of their first use."""
    counts: Counts
    """The last attempt's running totals."""
    seconds: float
    """The attempts' own wall time, from start to end of each; what lies between them is not in the ledger."""
    loss_scale: tuple[float, float] | None
    """The smallest and the largest loss scale used; None without an attempt."""
    wasted_attempts: int
    wasted_examples: int
    """Examples seen by attempts that were rolled back."""
    wasted_seconds: float
    missing_attempts: int
    """Attempts that the counts know and the file does not: made before the ledger began, or lost with the machine."""

    @property
    def skip_rate(self) -> float | None:
        """Skipped attempts / attempts; None without an attempt."""
        return self.counts.skipped / self.counts.attempts if self.counts.attempts else None

    @property
    def examples_per_second(self) -> float | None:
        """Examples applied / seconds, wasted ones included; None where no time passed or lines are missing."""
        return self._rate(self.counts.examples_applied)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens applied / seconds, likewise; None where tokens are not counted."""
        return self._rate(self.counts.tokens_applied)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values, rates included."""
        return {
            "schema": 1,
            "run_id": self.run_id,
            "created": self.created,
            "protocol_hash": self.protocol_hash,
            "policies": list(self.policies),
            "counts": counts_record(self.counts) | {"skipped": self.counts.skipped},
            "loss_scale": None if self.loss_scale is None else [encoded(scale) for scale in self.loss_scale],
            "seconds": self.seconds,
            "waste": {
                "attempts": self.wasted_attempts,
                "examples": self.wasted_examples,
                "seconds": self.wasted_seconds,
            },
            "missing_attempts": self.missing_attempts,
            "skip_rate": self.skip_rate,
            "examples_per_second": self.examples_per_second,
            "tokens_per_second": self.tokens_per_second,
        }

    def _rate(self, amount: int | None) -> float | None:
        seconds = self.seconds + self.wasted_seconds
        return None if amount is None or self.missing_attempts or not seconds > 0 else amount / seconds


def summarize(lines: Iterable[Record]) -> Summary:
    """The totals of the lines that `read` yields.

    Counts are taken from the last attempt that stands and held against the sum over the lines: attempts = completed +
    skipped, by reason, and the examples and tokens of both.

    Raises:
        LedgerError: the lines do not add up to the counts that they carry.
    """
    lines = iter(lines)
    header = next(lines)
    stand, waste = _Totals(), _Totals()
    for line in lines:
        if line["kind"] == "attempt":
            (waste if line["waste"] else stand).add(line)
    missing = stand.carried.attempts - stand.added.attempts
    if missing == 0:
        _agree(stand.added, stand.carried)
    return Summary(
        run_id=header["run_id"],
        created=header["created"],
        protocol_hash=header["protocol_hash"],
        policies=tuple(stand.policies),
        counts=stand.carried,
        seconds=stand.seconds,
        loss_scale=stand.loss_scale,
        wasted_attempts=waste.added.attempts,
        wasted_examples=waste.added.examples_seen,
        wasted_seconds=waste.seconds,
        missing_attempts=missing,
    )


class _Totals:
    """A running sum over attempts; of each line it keeps nothing but the last one's counts."""

    def __init__(self) -> None:
        self.added = Counts()
        self.carried = Counts()
        self.policies: dict[str, None] = {}
        self.loss_scale: tuple[float, float] | None = None
        self.seconds = 0.0

    def add(self, line: Record) -> None:
        reason = None if line["skip"] is None else line["skip"]["reason"]
        self.added = self.added.after(reason=reason, examples=line["examples"], tokens=line["tokens"])
        self.carried = counts_of(line["counts"])
        self.policies[line["policy"]] = None
        self.loss_scale = _widened(self.loss_scale, float(line["amp/loss_scale"]))
        self.seconds += float(line["seconds"])


def _widened(span: tuple[float, float] | None, value: float) -> tuple[float, float]:
    return (value, value) if span is None else (min(span[0], value), max(span[1], value))


def _agree(added: Counts, carried: Counts) -> None:
    """Refuse lines whose sum is not what the last of them says; only ticks cannot be told from the lines."""
    if replace(added, ticks=carried.ticks) != carried:
        raise LedgerError(
            f"the lines add up to {counts_record(added)}, and the last of them says {counts_record(carried)}",
            hint="the file was changed after it was written",
        )
