"""Starts the script as its user would, waits for its end, and leaves Ctrl-C and SIGTERM to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from truestep.audit.plain import plain
from truestep.audit.process.account import ASKED, Request

ARM = Path(__file__).with_name("arm")
"""Holds the `sitecustomize` that begins the audit in a process; in front of PYTHONPATH, so children inherit it."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the script ended."""

    exit: int
    """Its exit code; -N where signal N ended it."""
    interrupted: signal.Signals | None
    """The first signal that the audit was sent meanwhile."""


def run(arguments: Sequence[str], request: Request, *, stdout_to_stderr: bool, silent: bool = False) -> Ended:
    """Runs python with `arguments` in the same folder, terminal and group of processes as this one.

    `silent` hides what it says.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # what was said before the script comes before what it says
    with _Signals() as signals:
        out = subprocess.DEVNULL if silent else _STDERR if stdout_to_stderr else None
        process = subprocess.Popen(
            [sys.executable, *arguments], env=_environment(request), stdout=out, stderr=subprocess.DEVNULL if silent else None
        )
        signals.pass_on_to(process)
        return Ended(exit=process.wait(), interrupted=signals.first)


def _environment(request: Request) -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    path = f"{ARM}{os.pathsep}{before}" if before else str(ARM)
    return {**os.environ, "PYTHONPATH": path, ASKED: json.dumps(plain(request))}


class _Signals:
    """Inside the `with`, signals are noted, not obeyed: a terminal sends Ctrl-C to the script as well, SIGTERM is passed on.

    SIGTERM goes to the script's first process alone, as without an audit: what it does with its others is its own affair. A
    signal that this process ignores stays ignored, and the script inherits that.
    """

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        may_listen = threading.current_thread() is threading.main_thread()  # python lets no other
        listened = [each for each in _SIGNALS if may_listen and signal.getsignal(each) not in (signal.SIG_IGN, None)]
        self._before = {each: signal.signal(each, self._heard) for each in listened}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pass_on_to(self, process: subprocess.Popen[bytes]) -> None:
        """From now on; and a SIGTERM that came just before."""
        self._process = process
        if self.first is signal.SIGTERM:
            process.terminate()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.first = self.first or signal.Signals(number)
        if number == signal.SIGTERM and self._process is not None:
            self._process.terminate()
