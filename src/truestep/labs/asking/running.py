"""Runs a learner's own file in a process of its own, with a limit of time, and brings home the report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from truestep.errors import UsageError
from truestep.labs.asking.milestones import Report, milestone

LIMIT_SECONDS = 120.0
"""The task takes a second, and torch some to be imported."""
PROGRAM = "truestep.labs.asking.trial"
TAIL_BYTES = 2000
"""Of what the file printed, kept for the report of one that came to no end."""


def built(path: Path, name: str, *, limit_seconds: float = LIMIT_SECONDS) -> Report:
    """How the `train` of a file does. This runs the file, with all that it does and all that its user may do.

    Its process has a group of its own, which is killed after the limit; what it prints is heard by nobody.

    Raises:
        UsageError: there is no such file or milestone; nothing was started.
    """
    goal = milestone(name)
    if not path.is_file():
        hint = f"write one: truestep labs --milestone {name} > my_loop.py"
        raise UsageError(f"there is no file {path}", hint=hint)
    with TemporaryDirectory(prefix="truestep-labs-") as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", PROGRAM, str(path), name, str(report)]
        ended, tail = _run(command, limit_seconds)
        if report.exists():
            with suppress(ValueError):
                return Report.of(json.loads(report.read_bytes()))
    off = [ended]
    if tail.strip():
        off.append(f"the last that it said: {tail.strip().splitlines()[-1]}")
    return Report(milestone=goal.name, passed=False, off=tuple(off))


def _run(command: list[str], limit_seconds: float) -> tuple[str, str]:
    """How it ended, in words, and the end of what it said."""
    reading, writing = os.pipe()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing, start_new_session=True)
    os.close(writing)
    late = threading.Event()

    def kill() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(limit_seconds, kill)
    timer.start()
    try:
        tail = b""
        with os.fdopen(reading, "rb", buffering=0) as said:
            while chunk := said.read(1 << 16):
                tail = (tail + chunk)[-TAIL_BYTES:]
        code = process.wait()
    finally:
        timer.cancel()
        _kill(process)  # after Ctrl-C; else it has ended
        process.wait()
    by_us, by_itself = f"it was not done after {limit_seconds:g} s, and was ended", f"it ended the process itself, with {code}"
    return by_us if late.is_set() else by_itself, tail.decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
