"""Ctrl-C and SIGTERM of a command that saves before it ends: the first asks, the second ends at once."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Self

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


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
        if self.code is not None:
            os._exit(self.code)
        self.code = CODES[signal.Signals(number)]
        if not self.has_begun:
            raise Interrupted(self.code)
        print("ending after this attempt, once it is saved; a second signal ends at once", file=sys.stderr, flush=True)
