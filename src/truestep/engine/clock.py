"""What a tick of the learning-rate schedule means: rules from counts to ticks, and the one place that ticks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from torch.optim.lr_scheduler import ReduceLROnPlateau

from truestep.engine.counts import Counts
from truestep.errors import ClockError


class Clock(Protocol):
    """A rule that tells ticks from counts."""

    @property
    def counts(self) -> Literal["examples", "tokens"] | None:
        """What every attempt has to count for it; None where attempts alone will do."""
        ...

    def __call__(self, before: Counts, after: Counts, *, ends_epoch: bool) -> int:
        """How many ticks are due between the counts before an attempt and those after it."""
        ...


@dataclass(frozen=True)
class Never:
    """No tick: the clock of an update without a schedule."""

    counts: ClassVar[None] = None

    def __call__(self, before: Counts, after: Counts, *, ends_epoch: bool) -> int:
        """Always 0."""
        return 0


@dataclass(frozen=True)
class OnCompleted:
    """One tick for each completed attempt: the schedule counts updates that happened."""

    counts: ClassVar[None] = None

    def __call__(self, before: Counts, after: Counts, *, ends_epoch: bool) -> int:
        """1 or 0."""
        return after.completed - before.completed


@dataclass(frozen=True)
class OnAttempt:
    """One tick for any attempt, skipped or not."""

    counts: ClassVar[None] = None

    def __call__(self, before: Counts, after: Counts, *, ends_epoch: bool) -> int:
        """Always 1."""
        return after.attempts - before.attempts


@dataclass(frozen=True)
class OnEpoch:
    """One tick at the end of an epoch, whatever became of its last window."""

    counts: ClassVar[None] = None

    def __call__(self, before: Counts, after: Counts, *, ends_epoch: bool) -> int:
        """1 at the end of an epoch."""
        return int(ends_epoch)


@dataclass(frozen=True, kw_only=True)
class Every:
    """A tick whenever another `examples`, or another `tokens`, have been applied; several at once if a window brings as many.

    >>> Every(examples=100)(Counts(examples_applied=90), Counts(examples_applied=310), ends_epoch=False)
    3
    """

    examples: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Exactly one of the two, at least 1."""
        given = [n for n in (self.examples, self.tokens) if n is not None]
        if len(given) != 1 or not isinstance(given[0], int) or given[0] < 1:
            raise ClockError(
                f"Every(examples={self.examples}, tokens={self.tokens}) names no single interval",
                hint="write Every(examples=N) or Every(tokens=N), with a whole N of at least 1",
            )

    @property
    def counts(self) -> Literal["examples", "tokens"]:
        """What it is an interval of."""
        return "tokens" if self.examples is None else "examples"

    def __call__(self, before: Counts, after: Counts, *, ends_epoch: bool) -> int:
        """The intervals that were completed in between."""
        if self.examples is not None:
            return after.examples_applied // self.examples - before.examples_applied // self.examples
        assert self.tokens is not None
        return (after.tokens_applied or 0) // self.tokens - (before.tokens_applied or 0) // self.tokens


CLOCKS: dict[str, Clock] = {"completed": OnCompleted(), "attempt": OnAttempt(), "epoch": OnEpoch()}


def clock_of(clock: str | Every, *, schedules: bool, counts_tokens: bool) -> Clock:
    """The clock of that name, or one that never ticks where nothing `schedules`.

    ClockError for an unknown one, and for one by tokens that nobody counts.
    """
    if isinstance(clock, Every):
        if clock.tokens is not None and not counts_tokens:
            raise ClockError(
                "the clock ticks by tokens, and the update was not told how to count them",
                hint="give Update(tokens=...), a function from a microbatch to its number of tokens",
            )
    elif clock not in CLOCKS:
        raise ClockError(
            f"no clock is called {clock!r}",
            hint=f"choose one of: {', '.join(CLOCKS)}, Every(examples=N), Every(tokens=N)",
            asked=str(clock),
        )
    if not schedules:
        return Never()
    return clock if isinstance(clock, Every) else CLOCKS[clock]


class Schedule:
    """Schedulers and the clock that alone moves them; a loop without a scheduler has one that stands still."""

    def __init__(self, schedulers: Sequence[Any], clock: Clock) -> None:
        self.schedulers, self.clock = tuple(schedulers), clock
        self._left_at: list[Any] | None = None

    def demand_untouched(self) -> None:
        """ClockError where somebody else has moved a scheduler since this clock did."""
        positions = self._positions()
        if self._left_at is not None and positions != self._left_at:
            left, found = next(pair for pair in zip(self._left_at, positions, strict=True) if pair[0] != pair[1])
            raise ClockError(
                f"the schedule was left at {left} and stands at {found}: somebody else moves it too",
                hint="leave scheduler.step() out of the loop, or leave scheduler= out of Update",
            )

    def moved(self) -> None:
        """A state was loaded: wherever the schedulers stand now is where this clock left them."""
        self._left_at = None

    def ends_epoch(self, window: object) -> bool:
        """Whether `window` ends its epoch; not asked where no clock ticks by epochs, for it may have to read ahead to know."""
        return isinstance(self.clock, OnEpoch) and bool(getattr(window, "ends_epoch", False))

    def tick(self, ticks: int, *, has_stepped: bool) -> None:
        """Step every scheduler `ticks` times.

        torch warns if a schedule moves before its optimizer has. On a declared clock that is meant: a skipped first attempt
        ticks "attempt" and "epoch".
        """
        if not self.schedulers:
            return
        with nullcontext() if has_stepped else warnings.catch_warnings():
            if not has_stepped:
                warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step", UserWarning)
            for _ in range(ticks):
                for scheduler in self.schedulers:
                    scheduler.step()
        self._left_at = self._positions()

    def _positions(self) -> list[Any]:
        return [getattr(scheduler, "last_epoch", None) for scheduler in self.schedulers]


def demand_scheduler(scheduler: Any, optimizers: Sequence[object]) -> None:
    """ClockError for a scheduler that a clock cannot drive."""
    if not callable(getattr(scheduler, "step", None)):
        raise ClockError(f"a scheduler has a step(), and {scheduler!r} has none", hint="pass a torch.optim.lr_scheduler object")
    if isinstance(scheduler, ReduceLROnPlateau):
        raise ClockError(
            "ReduceLROnPlateau moves on a metric, not on a clock",
            hint="leave scheduler= out and call its step(metric) after your evaluation",
        )
    if all(getattr(scheduler, "optimizer", optimizer) is not optimizer for optimizer in optimizers):
        raise ClockError(
            "the scheduler drives another optimizer than this update's",
            hint="build it from the optimizer that Update is given",
        )
