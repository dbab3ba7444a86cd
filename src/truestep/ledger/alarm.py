"""Tells when too many of the last attempts were skipped."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truestep.engine.outcome import Outcome
from truestep.errors import StateError, UsageError


@dataclass(frozen=True, kw_only=True)
class Alert:
    """More of the last attempts were skipped than the limit allows: how many, why, and where the last one broke."""

    attempt: int
    """The attempt that it sounded at."""
    limit: float
    attempts: int
    """The attempts judged: the alarm's window, or fewer where it has not seen as many."""
    skipped_by_reason: Mapping[str, int]
    """The skips among them, the most frequent reason first."""
    place: str | None
    """Of the last skip, as `detail`: the first non-finite input, module or parameter; None where it could not be told."""
    detail: str
    next_loss_scale: float

    @property
    def skipped(self) -> int:
        """The skips among the attempts judged, over all reasons."""
        return sum(self.skipped_by_reason.values())

    @property
    def rate(self) -> float:
        """Skipped / judged attempts."""
        return self.skipped / self.attempts

    def __str__(self) -> str:
        """The alert in a sentence or two."""
        reasons = ", ".join(f"{skips} {reason}" for reason, skips in self.skipped_by_reason.items())
        rate, limit = (f"{100 * share:.3g} %" for share in (self.rate, self.limit))
        return (
            f"{self.skipped} of the last {self.attempts} attempts were skipped ({rate}, limit {limit}): {reasons}. "
            f"The last, attempt {self.attempt}{f', at {self.place}' if self.place else ''}: {self.detail}. "
            f"The loss scale stands at {self.next_loss_scale:g}."
        )


class SkipAlarm:
    """Sounds once when more than `limit` of the last `attempts` attempts were skipped, and again only after it fell silent.

    Call it with each outcome, or give it to a `Ledger`, which does so, keeps the alert as a line and warns. It counts and
    estimates nothing: as long as it has seen fewer attempts than its window holds, it takes the others for completed, so
    that it sounds when skips > limit * attempts, and not for the first skip of a run. It falls silent when the skips in
    the window are down to half of that: at a rate that hovers about the limit it does not sound over and over.

    The usual start of a dynamic loss scale does not count: skips before the first completed attempt that lowered the
    scale. Where the scale cannot move, or has reached its floor, they do. A window of 200 holds 10 skips at the default
    limit; a sound run in float16 skips about one attempt in its growth interval, 2000.

    Args:
        limit: The share of skipped attempts above which it sounds; at least 0 and below 1.
        attempts: How many of the last attempts it looks at.

    Raises:
        UsageError: a limit or a window that is none.

    Example:
        >>> alarm = SkipAlarm(limit=0.1, attempts=50)
        >>> alarm.state_dict()
        {'window': [], 'settled': False, 'sounding': False}
    """

    def __init__(self, limit: float = 0.05, attempts: int = 200) -> None:
        if not 0.0 <= limit < 1.0:
            raise UsageError(
                f"a skip rate of {limit} can never be exceeded, or always is", hint="choose 0 <= limit < 1", limit=limit
            )
        if attempts < 1:
            raise UsageError(f"an alarm cannot look at {attempts} attempts", hint="choose attempts >= 1", attempts=attempts)
        self.limit = limit
        self.attempts = attempts
        self._window: deque[str | None] = deque(maxlen=attempts)
        self._skipped = 0
        self._settled = False
        self._sounding = False

    def __call__(self, outcome: Outcome) -> Alert | None:
        """The alert where this outcome is the one to sound at, else None."""
        self._settled = self._settled or not _is_settling(outcome)
        if not self._settled:
            return None
        self._take(None if outcome.skip is None else outcome.skip.reason.value)
        share = self._skipped / self.attempts
        if self._sounding:
            self._sounding = share > self.limit / 2
            return None
        if outcome.skip is None or share <= self.limit:
            return None
        self._sounding = True
        return Alert(
            attempt=outcome.counts.attempts,
            limit=self.limit,
            attempts=len(self._window),
            skipped_by_reason=dict(Counter(filter(None, self._window)).most_common()),
            place=outcome.skip.place,
            detail=outcome.skip.detail,
            next_loss_scale=outcome.next_loss_scale,
        )

    def state_dict(self) -> dict[str, Any]:
        """What it has seen, as plain values: a part of a checkpoint. Limit and window are the constructor's, not state."""
        return {"window": list(self._window), "settled": self._settled, "sounding": self._sounding}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave; of a longer window the last attempts. StateError for anything else."""
        try:
            window, settled, sounding = list(state["window"]), bool(state["settled"]), bool(state["sounding"])
        except (KeyError, TypeError) as error:  # a mapping of something else, or none
            message = f"this is no state of a SkipAlarm: {type(error).__name__}: {error}"
            raise StateError(message, hint="pass what alarm.state_dict() gave") from error
        self._window = deque(window, maxlen=self.attempts)
        self._skipped = sum(reason is not None for reason in self._window)
        self._settled, self._sounding = settled, sounding

    def _take(self, reason: str | None) -> None:
        if len(self._window) == self.attempts:
            self._skipped -= self._window[0] is not None
        self._window.append(reason)
        self._skipped += reason is not None


def _is_settling(outcome: Outcome) -> bool:
    """Whether the loss scale came down from a start that was too high: a skip that a smaller scale cures, and that made it so."""
    return outcome.skip is not None and outcome.skip.curable and outcome.next_loss_scale < outcome.loss_scale
