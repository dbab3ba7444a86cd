"""Attempts whose stages are timed: every second of one in exactly one stage. All other attempts pay a look at who watches."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from truestep.engine.attempt import Attempt
from truestep.engine.clock import Clock
from truestep.engine.counts import Counts
from truestep.engine.gradients import Verdict
from truestep.engine.outcome import Outcome, Skip
from truestep.engine.plan import Plan
from truestep.engine.scale import LossScale
from truestep.engine.weight_check import WeightChecks
from truestep.engine.work import Work

STAGES = ("zero", "forward", "backward", "block", "judge", "apply", "explain", "schedule", "bookkeeping")
"""In the order in which an attempt first comes to them: taking the old gradient away, and setting aside what a skip needs; inside
`autocast()`; inside `backward()`; the rest of an attempt() block; norm and finiteness; clip and step; why an attempt is skipped,
and the undoing; counts, loss scale and schedule; and what is left of the attempt's seconds."""


class Watch(Protocol):
    """Who is told of one attempt, which begins in the stage "zero" when this is made."""

    def turn(self, stage: str) -> None:
        """A stage is over, and `stage` begins."""

    def end(self, outcome: Outcome | None, seconds_by_stage: Mapping[str, float]) -> None:
        """The attempt is over; there is no outcome after an exception."""


class _Watching(threading.local):
    """Who watches the attempts that begin in a thread: gives a watch for each, or None for one that it has no use for."""

    watcher: Callable[[Plan[Any]], Watch | None] | None = None


watching = _Watching()


class Kinds(NamedTuple):
    """What an attempt is made of."""

    work: type[Work]
    attempt: type[Attempt]


def kinds_of(plan: Plan[Any]) -> Kinds:
    """Those that time their stages, where the plan or somebody in this thread wants to know."""
    return _TIMED if plan.time_stages or watching.watcher is not None else _PLAIN


class TimedWork(Work):
    """The work of an attempt, with a stopwatch that is always in one stage."""

    def __init__(self, plan: Plan[Any], scale: LossScale, total: Any, *, can_replay: bool, **parts: Any) -> None:
        watcher = watching.watcher
        self._watch = None if watcher is None else watcher(plan)
        self._seconds: dict[str, float] = {}
        try:
            super().__init__(plan, scale, total, can_replay=can_replay, **parts)
        except BaseException:
            self._end(None)
            raise
        self._stage, self._since = "zero", self._start
        self.turn("bookkeeping" if can_replay else "block")  # between the microbatches a block does what it likes

    def turn(self, stage: str) -> str:
        """End the stage that the attempt is in and begin `stage`; returns the one before. What a watch takes is in neither."""
        before = self._stage
        self._seconds[before] = self._seconds.get(before, 0.0) + (time.perf_counter() - self._since)
        if self._watch is not None:
            self._watch.turn(stage)
        self._stage, self._since = stage, time.perf_counter()
        return before

    def judge(self, clock: Clock) -> Verdict:
        """In its stage."""
        self.turn("judge")
        return super().judge(clock)

    def apply(self, norm: float, *, draw: int) -> None:
        """In its stage; what follows is the schedule's."""
        self.turn("apply")
        super().apply(norm, draw=draw)
        self.turn("schedule")

    def explain(self, verdict: Verdict) -> Skip:
        """In its stage, to which the undoing belongs too."""
        self.turn("explain")
        return super().explain(verdict)

    def undo(self) -> None:
        """What follows is the schedule's."""
        super().undo()
        self.turn("schedule")

    def report(self, skip: Skip | None, counts: Counts, next_scale: LossScale, weight_check: WeightChecks) -> Outcome:
        """The outcome, with the seconds by stage where the plan wants them there."""
        self.turn("bookkeeping")
        outcome = super().report(skip, counts, next_scale, weight_check)
        self._seconds = completed(self._seconds, seconds=outcome.seconds)
        return replace(outcome, seconds_by_stage=self._seconds) if self.plan.time_stages else outcome

    def close(self) -> None:
        """Tell the watch, whatever became of the attempt."""
        try:
            super().close()
        finally:
            self._end(self.outcome)

    def _end(self, outcome: Outcome | None) -> None:
        if self._watch is not None:
            self._watch.end(outcome, self._seconds)


class TimedAttempt(Attempt):
    """An attempt whose forwards and backwards are stages."""

    _work: TimedWork

    def autocast(self) -> AbstractContextManager[object]:
        """In the stage "forward"."""
        return _Forward(self._work, super().autocast())

    def backward(self, *loss: Any, **named: Any) -> None:
        """In the stage "backward"."""
        before = self._work.turn("backward")
        super().backward(*loss, **named)
        self._work.turn(before)


class _Forward:
    """A context in the stage "forward"."""

    def __init__(self, work: TimedWork, context: AbstractContextManager[object]) -> None:
        self._work, self._context = work, context
        self._before = ""

    def __enter__(self) -> object:
        self._before = self._work.turn("forward")
        return self._context.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        held = self._context.__exit__(kind, error, trace)
        self._work.turn(self._before)
        return held


def completed(measured: Mapping[str, float], *, seconds: float) -> dict[str, float]:
    """The stages of an attempt that took `seconds`, in their order: what was measured, and "bookkeeping" for all that is left.

    Their sum is `seconds`, within three roundings. A rest that rounding makes negative is 0.

    >>> completed({"forward": 0.25, "zero": 0.25, "bookkeeping": 9.0}, seconds=1.0)
    {'zero': 0.25, 'forward': 0.25, 'bookkeeping': 0.5}
    """
    named = {stage: measured[stage] for stage in STAGES[:-1] if stage in measured}
    return named | {STAGES[-1]: max(0.0, seconds - math.fsum(named.values()))}


_PLAIN, _TIMED = Kinds(Work, Attempt), Kinds(TimedWork, TimedAttempt)
