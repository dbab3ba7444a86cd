"""What has happened so far: attempts, completed and skipped updates, examples, tokens, ticks. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Running totals after an attempt; each moves in `after` and nowhere else.

    attempts = completed + skipped holds because each attempt adds one to exactly one of the two. Tokens are None where
    the update was not told how to count them; examples that an attempt() block does not tell add nothing.

    >>> counts = Counts().after(reason=None, examples=8, tokens=None)
    >>> counts = counts.after(reason="backward overflow", examples=8, tokens=None)
    >>> counts.attempts, counts.completed, counts.skipped, counts.examples_seen, counts.examples_applied
    (2, 1, 1, 16, 8)
    """

    attempts: int = 0
    completed: int = 0
    skipped_by_reason: Mapping[str, int] = field(default_factory=dict)
    consecutive_skips: int = 0
    examples_seen: int = 0
    examples_applied: int = 0
    tokens_seen: int | None = None
    tokens_applied: int | None = None
    ticks: int = 0

    @property
    def skipped(self) -> int:
        """Attempts that were skipped, over all reasons."""
        return sum(self.skipped_by_reason.values())

    def after(self, *, reason: str | None, examples: int | None, tokens: int | None) -> Counts:
        """The counts once one more attempt has ended: completed where `reason` is None, else skipped for it."""
        applied = reason is None
        by_reason = dict(self.skipped_by_reason)
        if reason is not None:
            name = str(reason)  # a plain word, whatever enumeration it comes from
            by_reason[name] = by_reason.get(name, 0) + 1
        return Counts(
            attempts=self.attempts + 1,
            completed=self.completed + applied,
            skipped_by_reason=by_reason,
            consecutive_skips=0 if applied else self.consecutive_skips + 1,
            examples_seen=self.examples_seen + (examples or 0),
            examples_applied=self.examples_applied + applied * (examples or 0),
            tokens_seen=_plus(self.tokens_seen, tokens),
            tokens_applied=_plus(self.tokens_applied, None if tokens is None else applied * tokens),
            ticks=self.ticks,
        )

    def ticked(self, ticks: int) -> Counts:
        """The counts once the scheduler has moved on by `ticks`."""
        return Counts(**vars(self) | {"ticks": self.ticks + ticks}) if ticks else self


def _plus(total: int | None, more: int | None) -> int | None:
    """`total` and `more`, either of which may be uncounted."""
    return total if more is None else (total or 0) + more
