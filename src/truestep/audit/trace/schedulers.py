"""Schedules of learning rates: each tick, and how many attempts there were since the one before."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from torch.optim.lr_scheduler import LRScheduler

from truestep.audit.events import Restored, SchedulerMade, Ticked

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


@dataclass
class _Clock:
    number: int
    ticks: int = 0
    attempts: int = 0
    completed: int = 0
    backwards: int = 0


class Schedulers:
    """Every scheduler of torch's kind. Their constructors tick themselves, which is no tick of the script's."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._clocks: weakref.WeakKeyDictionary[Any, _Clock] = weakref.WeakKeyDictionary()
        self._patched: set[type] = set()
        self._inside = 0

    def install(self) -> None:
        """Watches every scheduler class, those that the script makes too."""
        for kind in [LRScheduler, *_kinds(LRScheduler)]:
            self._watch(kind)
        original = LRScheduler.__init_subclass__
        watch = self._watcher.recorder.guard(self._watch)

        def __init_subclass__(cls: type, /, **kwargs: Any) -> None:
            original(**kwargs)
            watch(cls)

        self._watcher.patches.replace(LRScheduler, "__init_subclass__", classmethod(__init_subclass__))

    def _watch(self, kind: type) -> None:
        if kind in self._patched:
            return
        self._patched.add(kind)
        ticked, made = self._watcher.hook(self._ticked), self._watcher.hook(self._made)
        if "step" in vars(kind):
            step = vars(kind)["step"]

            @wraps(step)
            def watched_step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
                self._inside += 1
                try:
                    result = step(scheduler, *args, **kwargs)
                finally:
                    self._inside -= 1
                if not self._inside:
                    ticked(scheduler, bool(args or kwargs))
                return result

            self._watcher.patches.replace(kind, "step", watched_step)
        if "__init__" in vars(kind):
            init = vars(kind)["__init__"]

            @wraps(init)
            def watched_init(scheduler: Any, *args: Any, **kwargs: Any) -> None:
                self._inside += 1
                try:
                    init(scheduler, *args, **kwargs)
                finally:
                    self._inside -= 1
                if not self._inside:
                    made(scheduler)

            self._watcher.patches.replace(kind, "__init__", watched_init)
        if "load_state_dict" in vars(kind):
            load, restored = vars(kind)["load_state_dict"], self._watcher.hook(self._restored)

            @wraps(load)
            def watched_load(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
                result = load(scheduler, *args, **kwargs)
                restored(scheduler)
                return result

            self._watcher.patches.replace(kind, "load_state_dict", watched_load)

    def _clock(self, scheduler: Any) -> _Clock:
        clock = self._clocks.get(scheduler)
        if clock is None:
            clock = self._clocks[scheduler] = _Clock(len(self._clocks))
        return clock

    def _optimizer(self, scheduler: Any) -> int:
        return self._watcher.optimizers.know(scheduler.optimizer).number

    def _made(self, scheduler: Any) -> None:
        clock, optimizer = self._clock(scheduler), self._optimizer(scheduler)
        self._remember(clock, optimizer)
        self._watcher.recorder.emit(
            SchedulerMade,
            site=self._watcher.recorder.site(),
            scheduler=clock.number,
            kind=type(scheduler).__name__,
            optimizer=optimizer,
        )

    def _ticked(self, scheduler: Any, metric: bool) -> None:
        clock, optimizer, recorder = self._clock(scheduler), self._optimizer(scheduler), self._watcher.recorder
        clock.ticks += 1
        recorder.emit(
            Ticked,
            site=recorder.site(),
            scheduler=clock.number,
            kind=type(scheduler).__name__,
            optimizer=optimizer,
            number=clock.ticks,
            attempts=recorder.attempts[optimizer] - clock.attempts,
            completed=recorder.completed[optimizer] - clock.completed,
            backwards=recorder.backwards - clock.backwards,
            metric=metric,
        )
        self._remember(clock, optimizer)

    def _remember(self, clock: _Clock, optimizer: int) -> None:
        recorder = self._watcher.recorder
        clock.attempts, clock.completed = recorder.attempts[optimizer], recorder.completed[optimizer]
        clock.backwards = recorder.backwards

    def _restored(self, scheduler: Any) -> None:
        self._watcher.recorder.emit(
            Restored, site=self._watcher.recorder.site(), what="scheduler", which=self._clock(scheduler).number
        )


def _kinds(kind: type) -> list[type]:
    children: list[type] = kind.__subclasses__()
    return [each for child in children for each in (child, *_kinds(child))]
