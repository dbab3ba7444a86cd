"""A profile of the attempts inside a `with` block: the table of their stages, and a trace of one; it ends by itself."""

from __future__ import annotations

import os
import time
import warnings
from types import TracebackType
from typing import Any, Literal, Self

import torch

from truestep.engine.plan import Plan
from truestep.engine.stages import watching
from truestep.engine.update import Update
from truestep.errors import StateError, UsageError
from truestep.pages.words import counted
from truestep.timing.measured import Asked, Stage, Table, table_of
from truestep.timing.report import text
from truestep.timing.trace import Tracer
from truestep.timing.watch import AttemptWatch


def profile(
    trace: str | os.PathLike[str] | None = None,
    *,
    after: int = 3,
    attempts: int = 5,
    update: Update[Any] | None = None,
) -> Profile:
    """A `with` block in which the attempts of this thread are profiled: where their time goes, stage by stage.

    The first `after` attempts pass by; with `trace`, the next one is traced by torch.profiler; the `attempts` after it are
    timed, without torch.profiler, whose own cost would be in them. Then the profile has ended, and what follows pays nothing.
    It changes no bit of what is computed.

    Args:
        trace: The file of one attempt's trace, for chrome://tracing or ui.perfetto.dev, written as soon as the attempt is over;
            packed where the name ends in .gz; what is there is replaced. Its ranges are truestep.attempt and, inside it,
            truestep.forward and the other stages. None makes none; a torch.profiler of one's own then shows the ranges.
        after: Attempts to warm up: what is compiled, allocated or checked once is no part of the table.
        attempts: How many are timed.
        update: The one update whose attempts are meant; None: those of all, in one table.

    Raises:
        UsageError: a number that cannot be. FileError: the trace cannot be written there; nothing has run. StateError: this
            thread has a profile open already, or a trace was asked for while another torch.profiler is running.

    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> update = Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda model, x: model(x).square().mean())
    >>> with profile(after=1, attempts=2) as found:
    ...     for _ in range(10):
    ...         outcome = update([torch.ones(4, 2)])
    >>> [stage.name for stage in found.stages]
    ['zero', 'forward', 'backward', 'judge', 'apply', 'schedule', 'bookkeeping']
    >>> found.table.attempts, round(sum(stage.share for stage in found.stages), 9)
    (2, 1.0)
    """
    for name, value, least in (("after", after, 0), ("attempts", attempts, 1)):
        if value < least:
            raise UsageError(f"{name} is {value}", hint=f"{name} is {least} or more", field=name, value=value)
    return Profile(trace, after=after, attempts=attempts, update=update)


class Profile:
    """What `with truestep.profile() as profile:` gives: printed a table, `stages` its rows, `record()` all of it for JSON."""

    def __init__(self, trace: str | os.PathLike[str] | None, *, after: int, attempts: int, update: Update[Any] | None) -> None:
        self._path, self._after, self._attempts, self._only = trace, after, attempts, update
        self._tracer: Tracer | None = None
        self._state: Literal["new", "open", "ended"] = "new"
        self._updates: dict[int, tuple[int, Plan[Any]]] = {}
        self._timed: list[AttemptWatch] = []
        self._begun = self._open = 0
        self._last_end: float | None = None
        self._device: torch.device | None = None

    def __enter__(self) -> Self:
        """From here on attempts of this thread are profiled."""
        if self._state != "new":
            raise StateError("this profile has been used already", hint="call truestep.profile(...) again")
        if watching.watcher is not None:
            raise StateError("this thread has a profile open already", hint="leave its with block first")
        self._tracer = None if self._path is None else Tracer(self._path)
        self._state, watching.watcher = "open", self._watch
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """The profile ends, if it has not by itself. A trace that cannot be had is a RuntimeWarning, or a note to the error."""
        self._end()
        problem = self._trace_error()
        if problem is not None and error is not None:
            error.add_note(problem)
        elif problem is not None:
            warnings.warn(problem, RuntimeWarning, stacklevel=2)

    @property
    def ended(self) -> bool:
        """Whether all was measured that was asked for, or the block was left."""
        return self._state == "ended"

    @property
    def table(self) -> Table:
        """The attempts timed so far. On a CUDA device it waits until the last of them is over there."""
        asked = Asked(
            after=self._after,
            attempts=self._attempts,
            begun=self._begun,
            beside_another=any(watch.in_a_trace for watch in self._timed),
            trace=str(self._tracer.path) if self._tracer is not None and self._tracer.written else None,
            trace_error=self._trace_error(),
        )
        device = None if self._device is None else str(self._device)
        return table_of([watch.attempted for watch in self._timed], asked=asked, device=device)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The rows of the table."""
        return self.table.stages

    def record(self) -> dict[str, Any]:
        """The table as JSON values."""
        return self.table.record()

    def __str__(self) -> str:
        """The table and what it does not say, as plain text."""
        return text(self.table)

    def _trace_error(self) -> str | None:
        if self._tracer is None or self._tracer.written:
            return None
        if self._tracer.error is None and self.ended:
            return f"no trace was written: it was to be of attempt {self._after + 1}, and {counted(self._begun, 'attempt')} began"
        return self._tracer.error

    def _watch(self, plan: Plan[Any]) -> AttemptWatch | None:
        """An attempt begins: who is told of its stages."""
        now = time.perf_counter()
        if self.ended:  # by another thread, in which it was not open
            watching.watcher = None
            return None
        if self._only is not None and plan is not self._only.plan:
            return None
        place, _ = self._updates.setdefault(id(plan), (len(self._updates), plan))
        self._begun, self._device = self._begun + 1, plan.device
        is_traced = self._tracer is not None and self._begun == self._after + 1
        if self._tracer is not None:
            if self._begun == max(1, self._after):
                self._tracer.prepare(plan.device)
            if is_traced:
                self._tracer.start()
        is_timed = self._begun > self._after and not is_traced
        since = None if self._last_end is None or self._open else now - self._last_end
        self._open += 1
        return AttemptWatch(self._over, plan.device, update=place, is_timed=is_timed, is_traced=is_traced, seconds_since=since)

    def _over(self, watch: AttemptWatch) -> None:
        """An attempt is over: what it gives is kept, and where it was the last, the profile ends."""
        self._open -= 1
        if watch.is_traced and self._tracer is not None:
            self._tracer.stop()
        if watch.is_timed and watch.outcome is not None and not self.ended:
            self._timed.append(watch)
            if len(self._timed) == self._attempts:
                self._end()
        self._last_end = time.perf_counter()

    def _end(self) -> None:
        if not self.ended:
            self._state = "ended"
            if watching.watcher == self._watch:  # another thread, which leaves the block of this one, may have its own
                watching.watcher = None
            self._updates, self._only = {}, None  # whoever keeps a profile keeps no model
            if self._tracer is not None:
                self._tracer.stop()
