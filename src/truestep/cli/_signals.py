"""Ctrl-C and SIGTERM of a command that saves before it ends: the first asks, the second ends at once."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}

_ONE_SECONDS = 0.5
"""Signals that come closer after the first are the first: wrappers, and shells, send one twice."""

_STDERR = 2
_LINE_CLEARED = b"\r\x1b[2K"
_CURSOR_SHOWN = b"\x1b[?25h"


class Interrupted(BaseException):
    """A signal came while there was nothing to save; `code` is what the process ends with."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Signals:
    """Inside the `with`, the first signal sets `code`, which the run asks for between its attempts; a second ends the process.

    Before the run `has_begun` there is no attempt to end and nothing to save: the first raises Interrupted then. A forked
    child pays no attention: what becomes of it is its parent's to decide.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self.has_begun = False
        self._owner = os.getpid()
        self._first = 0.0

    def __enter__(self) -> Self:
        """Listen."""
        self._before = {number: signal.signal(number, self._heard) for number in CODES}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Be as deaf as before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            return
        now = time.monotonic()
        if self.code is not None:
            if now < self._first + _ONE_SECONDS:
                return
            _tell(b"", on_terminal=_CURSOR_SHOWN + _LINE_CLEARED)  # the bar's end, which nobody else will write now
            os._exit(self.code)
        self._first, self.code = now, CODES[signal.Signals(number)]
        if not self.has_begun:
            raise Interrupted(self.code)
        _tell(b"ending after this attempt, once it is saved; a second signal ends at once\n", on_terminal=_LINE_CLEARED)


def _tell(text: bytes, *, on_terminal: bytes) -> None:
    """Writes to stderr what it takes at once, before it `on_terminal` where it is one; never waits and never raises.

    It may have interrupted a write to the very same stream: Python's own buffers are not to be entered again.
    """
    with suppress(OSError):
        if select.select([], [_STDERR], [], 0)[1]:
            os.write(_STDERR, (on_terminal if os.isatty(_STDERR) else b"") + text)
