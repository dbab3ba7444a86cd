"""The audit's part inside a process of the script: it watches, and keeps an account that outlives the process."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.optim import Optimizer

from truestep.audit.events import OptimizerMade
from truestep.audit.plain import read
from truestep.audit.process.account import Account, Request, excuse, write
from truestep.audit.process.tracebacks import without_ours
from truestep.audit.trace import start

SHARE = 0.01
"""The part of a process's time that writing may take before its end."""


def begin(asked: str, *, began_seconds: float) -> None:
    """Watches this process, and those it forks, as the environment asks; it began when `time.monotonic` said `began_seconds`.

    The ways out of a process are watched too, and lead where they did: an exception that nobody handles, `sys.exit` while one
    is handled, and `os._exit`, which forked processes end with.
    """
    witness = Witness(read(Request, json.loads(asked)), began_seconds)
    atexit.register(witness.leave)
    os.register_at_fork(after_in_child=witness.forked)
    sys.exit = witness.leaving(sys.exit, at_once=False)
    os._exit = witness.leaving(os._exit, at_once=True)
    sys.excepthook = _as_always(sys.excepthook)


class Witness:
    """What is seen of one process goes into one file, which is written again now and then and at the end.

    A process that saw no optimizer writes none, nor does a forked one before it has made an optimizer of its own.
    """

    def __init__(self, request: Request, began_seconds: float) -> None:
        self.request = request
        self._watch(began_seconds)

    def _watch(self, began_seconds: float) -> None:
        self._process = os.getpid()
        self._writing = threading.Lock()
        self._began_ns = time.time_ns()
        self._rank = int(os.environ["RANK"]) if os.environ.get("RANK", "").isdigit() else None
        self._began_seconds = began_seconds
        self._last_seconds = self._spent_seconds = 0.0
        self._traceback: str | None = None
        self._watching = start(self.request.settings)
        self._watching.recorder.when_closed.append(self._now_and_then)

    def leave(self) -> None:
        """The last word, with the exception that ended the process where there was one."""
        if os.getpid() == self._process:
            with _excused(self.request):
                self._hear(getattr(sys, "last_value", None))
                self._tell(ended=True)

    def leaving(self, leave: Callable[..., Any], *, at_once: bool) -> Callable[..., Any]:
        """`leave`, which asks for the process's end, or ends it `at_once`: before that, the last word."""

        @wraps(leave)
        def leaving(*status: Any, **named: Any) -> Any:
            if os.getpid() == self._process:
                with _excused(self.request):
                    self._hear(sys.exception() if status and status[0] else None)
                    if at_once:
                        self._tell(ended=True)
            return leave(*status, **named)

        return leaving

    def forked(self) -> None:
        """In a forked process: nothing is seen until it makes an optimizer; what its parent did is not its own."""
        make = Optimizer.__init__

        @wraps(make)
        def __init__(optimizer: Optimizer, *arguments: Any, **named: Any) -> None:
            make(optimizer, *arguments, **named)
            if os.getpid() != self._process:
                with _excused(self.request):
                    Optimizer.__init__ = make  # type: ignore[method-assign]
                    self._watching.stop()
                    self._watch(time.monotonic())

        Optimizer.__init__ = __init__  # type: ignore[method-assign, assignment]

    def _now_and_then(self) -> None:
        """Between two windows: writes where as long a run can afford it."""
        began = time.monotonic()
        if self._spent_seconds + self._last_seconds <= SHARE * (began - self._began_seconds):
            self._tell(ended=False)
            self._last_seconds = time.monotonic() - began
            self._spent_seconds += self._last_seconds

    def _hear(self, error: BaseException | None) -> None:
        """An exception that ends the process; a signal or an exit is none."""
        if isinstance(error, Exception) and self._traceback is None:
            self._traceback = "".join(traceback.format_exception(error))
            self._watching.raised(error)

    def _tell(self, *, ended: bool) -> None:
        recorder = self._watching.recorder
        events = tuple(recorder.events)
        if not any(isinstance(event, OptimizerMade) for event in events):
            return
        if torch.distributed.is_available() and torch.distributed.is_initialized():  # which may be no more at the end
            self._rank = torch.distributed.get_rank()
        if not self._writing.acquire(blocking=False):  # a signal's handler may have come here from the very writing
            return
        try:
            account = Account(
                process=self._process,
                began_ns=self._began_ns,
                rank=self._rank,
                arguments=tuple(sys.argv[1:]),
                ended=ended,
                events=events,
                totals=recorder.totals(),
                coverage=recorder.coverage(),
                traceback=self._traceback,
            )
            write(account, Path(self.request.folder, f"{self._process}-{self._began_ns}.json"))
        finally:
            self._writing.release()


@contextmanager
def _excused(request: Request) -> Iterator[None]:
    """An exception in here is the audit's own: whoever asked for the audit is told, and nobody else."""
    try:
        yield
    except Exception as error:
        excuse(error, Path(request.folder))


def _as_always(hook: Callable[..., Any]) -> Callable[..., Any]:
    """`hook`, which prints a traceback, for what is the script's: not for the end after as many attempts as were asked for."""

    @wraps(hook)
    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        without_ours(error)
        hook(kind, error, error.__traceback__)

    return excepthook
