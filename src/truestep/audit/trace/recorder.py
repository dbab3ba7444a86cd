"""Keeping what was seen: events in order, thinned where a loop does the same again and again, and exact counts beside them."""

from __future__ import annotations

import os
import traceback
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from truestep.audit.events import Backward, Event, Stepped
from truestep.audit.site import Site
from truestep.audit.story import Totals
from truestep.audit.trace import frames

Kind = TypeVar("Kind", bound=Event)

DENSE = 12
"""Windows that are judged from the start; later ones are sampled."""

RUN = 4
"""Windows in a row that are judged when their number is a power of two, so that loops of several optimizers are seen whole."""

ALIKE = 24
"""Windows of one shape of which the events are kept."""


class Recorder:
    """What one process does. A fault of the audit itself is noted here and never reaches the script."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.judging = True
        """Whether this window's numbers are looked at."""
        self.chunk = 0
        """How many windows, of any optimizer, have been closed."""
        self.backwards = 0
        self.attempts: Counter[int] = Counter()
        self.completed: Counter[int] = Counter()
        self.when_closed: list[Callable[[], None]] = []
        """Called when a window has been closed, with `judging` set for the next one."""
        self._kept: list[Event] = []
        self._open: list[Event] = []
        self._order = 0
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
        if kind is Backward and any(isinstance(event, Stepped) for event in self._open):
            self.close()
        self._order += 1
        event = kind(order=self._order, site=site, **fields)
        self._open.append(event)
        return event

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

    def will_judge(self, chunk: int) -> bool:
        """Whether a window is judged: the first ones, those after something happened, and a few after each power of two."""
        power = 1 << max(chunk, 1).bit_length() - 1
        return chunk < self._densely_until or chunk - power < RUN

    def close(self) -> None:
        """A window is over: its events are kept, unless there are many like them."""
        shape = tuple(map(_shape, self._open))
        self._shapes[shape] += 1
        if self._shapes[shape] <= ALIKE:
            self._kept += self._open
        else:
            self._left_out += 1
        self._open = []
        self.chunk += 1
        self.judging = self.will_judge(self.chunk)
        for call in self.when_closed:
            call()

    def mapped(self, what: str, why: str) -> None:
        """Notes what was judged on another device than the script names."""
        self._mapped.setdefault(what, why)

    def fault(self, where: str) -> None:
        """Notes the exception that is being handled, which is the audit's own."""
        lines = traceback.format_exc().strip().splitlines()
        self._faults.setdefault(where, " | ".join(line.strip() for line in lines[-3:]))

    def guard(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """`hook`, silent in forked children, whose exceptions are noted instead of raised; it then gives None."""

        @wraps(hook)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if not self.active:
                return None
            try:
                return hook(*args, **kwargs)
            except Exception:
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
