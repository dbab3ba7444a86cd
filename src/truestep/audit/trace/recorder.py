"""Keeping what was seen: events in order, thinned where a loop does the same again and again, and exact counts beside them."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from functools import wraps
from itertools import groupby
from typing import Any, TypeVar

from truestep.audit.events import (
    Backward,
    Event,
    GradientTaken,
    Restored,
    Saved,
    StepCalled,
    Stepped,
    Ticked,
    Unscaled,
    Updated,
    Zeroed,
)
from truestep.audit.site import Site
from truestep.audit.story import Totals
from truestep.audit.trace import frames

Kind = TypeVar("Kind", bound=Event)

DENSE = 24
"""Windows that are judged from the start; later ones are sampled."""

RUN = 4
"""Windows in a row that are judged when their number is a power of two, so that loops of several optimizers are seen whole."""

ALIKE = 24
"""Windows of one shape of which the events are kept."""

SHAPES = 1024
"""Shapes, and orders of calls, that are told apart; windows of further shapes are counted alone."""

ORDERS = 64
"""Orders of calls that are told apart by their length too."""

RETURNS = 4
"""How often a window is judged because one of its rare order is due again."""

CALLS = frozenset((Backward, GradientTaken, Restored, Saved, StepCalled, Stepped, Ticked, Unscaled, Updated, Zeroed))
"""What is recorded of every window, judged or not: their order is the window's order of calls."""

Call = tuple[Any, ...]


class Recorder:
    """What one process does. A fault of the audit itself is noted here and never reaches the script."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.thread: threading.Thread | None = None
        """The one that trains: the first that makes an optimizer, or that runs a backward; None before."""
        self.judging = True
        """Whether this window's numbers are looked at."""
        self.chunk = 0
        """How many windows, of any optimizer, have been closed."""
        self.backwards = 0
        self.attempts: Counter[int] = Counter()
        self.completed: Counter[int] = Counter()
        self.when_closed: list[Callable[[], None]] = []
        """Called when a window has been closed."""
        self.when_turned: list[Callable[[], None]] = []
        """Called when `judging` has changed: on at the attempt before the window, so that its forward is seen; off at its end."""
        self._kept: list[Event] = []
        self._open: list[Event] = []
        self._order = 0
        self._stepped = False
        self._calls: list[Call] = []
        self._orders: dict[tuple[Any, ...], int] = {}
        """The last window of each order of calls."""
        self._returned: Counter[tuple[Any, ...]] = Counter()
        self._due: set[int] = set()
        self._shapes: Counter[tuple[Any, ...]] = Counter()
        self._left_out = 0
        self._faults: dict[str, str] = {}
        self._unjudged: dict[str, str] = {}
        self._mapped: dict[str, str] = {}
        self._densely_until = DENSE

    @property
    def active(self) -> bool:
        """False in a forked child, which is another process's business."""
        return os.getpid() == self.process

    @property
    def events(self) -> list[Event]:
        """What is kept, in order."""
        return self._kept + self._open

    def emit(self, kind: type[Kind], /, *, site: Site | None = None, **fields: Any) -> Kind:
        """Keeps one event."""
        if kind is Backward and self._stepped:
            self.close()
        self._order += 1
        event = kind(order=self._order, site=site, **fields)
        self._open.append(event)
        if kind in CALLS:
            self.mark(kind, site, fields.get("completed"), fields.get("carried"), len(fields.get("kept", ())))
        if kind is Stepped:
            self._stepped = True
            self._turn(self.judging or self.will_judge(self.chunk + 1))
        return event

    def mark(self, kind: type[Event], site: Site | None, *more: Any) -> None:
        """A call that is a part of the window's order, also where no event tells of it."""
        self._calls.append((kind, None if site is None else (site.path, site.line), *more))

    def site(self) -> Site | None:
        """The user's line that is being run."""
        return frames.here()

    def totals(self) -> Totals:
        """Exact counts."""
        return Totals(
            backwards=self.backwards,
            attempts=dict(self.attempts),
            completed=dict(self.completed),
            windows_left_out=self._left_out,
        )

    def coverage(self) -> dict[str, Any]:
        """What was and was not judged, as plain values."""
        unjudged = [{"what": what, "why": why} for what, why in self._unjudged.items()]
        unjudged += [{"what": f"a part of the audit failed in {where}", "why": error} for where, error in self._faults.items()]
        return {
            "windows": self.chunk + 1 if self.backwards else 0,
            "windows_without_events": self._left_out,
            "mapped": [{"what": what, "why": why} for what, why in self._mapped.items()],
            "not_judged": unjudged,
        }

    def cannot_judge(self, what: str, why: str) -> None:
        """Notes what the audit cannot see through."""
        self._unjudged.setdefault(what, why)

    def watch_closely(self, windows: int = RUN) -> None:
        """The next windows are judged, whatever their number."""
        self._densely_until = max(self._densely_until, self.chunk + 1 + windows)
        if self._stepped:
            self._turn(True)

    def will_judge(self, chunk: int) -> bool:
        """Whether a window is judged: the first ones, those after something new or when it is due again, and some later ones."""
        power = 1 << max(chunk, 1).bit_length() - 1
        return chunk < self._densely_until or chunk in self._due or chunk - power < RUN

    def _turn(self, judging: bool) -> None:
        if judging != self.judging:
            self.judging = judging
            for call in self.when_turned:
                call()

    def _compare(self) -> None:
        """An order of calls that was never seen makes the next windows judged; one that comes seldom, that in which it is due.

        A longer or shorter window of a known order is such a one too: the last of an epoch, as a rule.
        """
        order = tuple(call for call, _ in groupby(self._calls))
        for each, most in ((order, SHAPES), ((len(self._calls), *order), ORDERS)):
            last = self._orders.get(each, -1)
            if last < 0:
                if len(self._orders) >= most:
                    continue
                self.watch_closely()
            if self.chunk - last > RUN and self._returned[each] < RETURNS:
                self._returned[each] += 1
                self._due.add(2 * self.chunk - last)
            self._orders[each] = self.chunk
        self._due.discard(self.chunk)
        self._calls = []

    def close(self) -> None:
        """A window is over: its events are kept, unless there are many like them."""
        shape = tuple(map(_shape, self._open))
        if shape in self._shapes or len(self._shapes) < SHAPES:
            self._shapes[shape] += 1
        if 0 < self._shapes[shape] <= ALIKE:
            self._kept += self._open
        else:
            self._left_out += 1
        self._open, self._stepped = [], False
        self._compare()
        self.chunk += 1
        for call in self.when_closed:
            call()
        self._turn(self.will_judge(self.chunk))

    def mapped(self, what: str, why: str) -> None:
        """Notes what was judged on another device than the script names."""
        self._mapped.setdefault(what, why)

    def trains_here(self) -> None:
        """This thread is the one that is watched, unless another is that still lives."""
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.current_thread()

    def _elsewhere(self) -> bool:
        """Whether this is another thread than the one that trains; what it does is none of this record."""
        here = threading.get_ident()  # asking for the thread itself would make one of autograd's known to all
        if self.thread is None or self.thread.ident == here or not self.thread.is_alive():
            return False
        if here in (each.ident for each in threading.enumerate()):
            self.cannot_judge("other threads than the first that trains", "the loops of two threads cannot be told apart")
        return True

    def fault(self, where: str) -> None:
        """Notes the exception that is being handled, which is the audit's own."""
        lines = traceback.format_exc().strip().splitlines()
        self._faults.setdefault(where, " | ".join(line.strip() for line in lines[-3:]))

    def guard(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """`hook`, silent in forked children, whose exceptions are noted instead of raised; it then gives None."""

        @wraps(hook)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if not self.active or self._elsewhere():
                return None
            try:
                return hook(*args, **kwargs)
            except Exception as error:
                if _of_a_signal(error):
                    raise
                self.fault(hook.__qualname__)
                return None

        return guarded


def _shape(event: Event) -> tuple[Any, ...]:
    """What makes two events alike: all but the numbers that change from window to window."""
    site = event.site
    judged = getattr(event, "judged", None)
    return (
        type(event),
        None if site is None else (site.path, site.line),
        getattr(event, "completed", None) if isinstance(event, Stepped) else None,
        getattr(event, "carried", None),
        judged is None or judged.agrees(0.01),
        isinstance(event, Backward) and (event.finite, len(event.kept)),
    )


def _of_a_signal(error: BaseException) -> bool:
    """Whether an exception comes from a signal's handler of the script, which happened to run inside of a hook."""
    handlers = {getattr(signal.getsignal(each), "__code__", None) for each in signal.valid_signals()} - {None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False
