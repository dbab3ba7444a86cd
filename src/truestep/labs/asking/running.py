"""Runs a learner's own file in a process of its own, with a limit of time, and brings home the report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from truestep.errors import TruestepError, UsageError
from truestep.labs.asking.milestones import Report, milestone

LIMIT_SECONDS = 120.0
"""The task takes a second, and torch some to be imported."""
PROGRAM = "truestep.labs.asking.trial"
TAIL_BYTES = 2000
"""Of what the file printed, kept for the report of one that came to no end."""


GRACE_SECONDS = 1.0
"""For what is still on its way through the pipe once the group is dead."""


def demand_file(path: Path, name: str) -> None:
    """UsageError where there is no such file, or no such milestone."""
    milestone(name)
    if not path.is_file():
        hint = f"write one: truestep labs --milestone {name} > my_loop.py"
        raise UsageError(f"there is no file {path}", hint=hint)


def built(path: Path, name: str, *, limit_seconds: float = LIMIT_SECONDS) -> Report:
    """How the `train` of a file does. This runs the file, with all that it does and all that its user may do.

    Its process has a group of its own, which is killed when the file is done or the limit is reached; what it prints is heard by
    nobody. A file that is no Python is not run at all.

    Raises:
        UsageError: there is no such file or milestone; nothing was started.
        TruestepError: truestep itself has failed, which says nothing about the file.
    """
    demand_file(path, name)
    broken = _broken(path)
    if broken is not None:
        return Report(milestone=name, passed=False, off=(broken,))
    with TemporaryDirectory(prefix="truestep-labs-") as folder:
        kept = Path(folder, "report.json")
        ended, tail = _run([sys.executable, "-m", PROGRAM, str(path), name, str(kept)], limit_seconds)
        record = None
        if kept.exists():
            with suppress(ValueError):  # killed while it wrote
                record = json.loads(kept.read_bytes())
    last = tail.strip().splitlines()[-1:]
    if record is None or "failed" in record:
        why = record["failed"] if record else "; ".join([ended, *last])
        hint = f"this says nothing about {path}: truestep, or what it is installed with, is at fault"
        raise TruestepError(f"the check could not run: {why}", hint=hint)
    if "begun" not in record:
        return Report.of(record)
    off = (ended, *(f"the last that it said: {line}" for line in last))
    return Report(milestone=name, passed=False, off=off)


def _broken(path: Path) -> str | None:
    """Why the file is no Python; None where it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are the file's own affair
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{type(error).__name__}: {error.msg} <- line {error.lineno}: {(error.text or '').strip()}"
    except ValueError as error:
        return f"SyntaxError: {error}"
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="name a file that can") from error
    return None


def _run(command: list[str], limit_seconds: float) -> tuple[str, str]:
    """How it ended, in words, and the end of what it said."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    said = bytearray()
    hearing = threading.Thread(target=_hear, args=(process, said), daemon=True)
    hearing.start()
    try:
        ended = f"it ended the process itself, with {process.wait(limit_seconds)}"
    except subprocess.TimeoutExpired:
        ended = f"it was not done after {limit_seconds:g} s, and was ended"
    finally:  # after Ctrl-C, too
        with suppress(ProcessLookupError, PermissionError):  # nobody of the group is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    hearing.join(GRACE_SECONDS)  # who has left the group may hold the pipe for as long as he likes
    return ended, bytes(said).decode(errors="replace")


def _hear(process: subprocess.Popen[bytes], said: bytearray) -> None:
    """Keeps the end of what it says."""
    assert process.stdout is not None
    with process.stdout as stream:
        while chunk := os.read(stream.fileno(), 1 << 16):
            said += chunk
            del said[:-TAIL_BYTES]
