"""`truestep compare` as a shell starts it, but in the quick profile by forks: Python and torch start once for all of them.

There the command is a fork of a process that has imported all, and each of its runs a fork of the command, with a session,
streams and an end of its own. In the full profile the command and each run begin as a user's do, at some three seconds each.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

from tests import ready
from tests.hearing import HEARING
from tests.profile import FULL

ROOT = Path(__file__).parents[2]
_FORKING = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.compare.commands import forking; forking()"


def started(*arguments: str, cwd: Path | None = None) -> Any:
    """`truestep ARGUMENTS` in a process of its own, as `subprocess.Popen` has it, with text on its streams."""
    if FULL:
        command = [sys.executable, "-c", HEARING, "-m", "truestep", *arguments]
        return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return ready.started("-c", _FORKING, *arguments, cwd=cwd)


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`started`, what it said and how it ended."""
    process = started(*arguments, cwd=cwd)
    out, err = process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def forking() -> None:
    """Be the command, in a process that has imported all."""
    from truestep.compare import process  # noqa: PLC0415 - of the process that is to be the command

    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: those here hold nothing that a run needs
    process.subprocess = types.SimpleNamespace(Popen=_Fork, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    runpy.run_module("truestep", run_name="__main__", alter_sys=True)


class _Fork:
    """A run's process as a fork of this one, with what `Process` needs of `subprocess.Popen`."""

    def __init__(self, command: list[str], *, stderr: Any, **streams: Any) -> None:
        program, paths = command[-2:]
        (its_stdin, job), (reports, its_stdout) = os.pipe(), os.pipe()
        sys.stdout.flush()
        self.pid, self.returncode = os.fork(), None
        if self.pid == 0:
            self._be(program, paths, (its_stdin, its_stdout, stderr.fileno()))
        os.close(its_stdin)
        os.close(its_stdout)
        self.stdin, self.stdout = open(job, "wb"), open(reports, "rb")  # noqa: SIM115 - as pipes of Popen's

    def _be(self, program: str, paths: str, streams: tuple[int, ...]) -> None:
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            for place, each in enumerate(streams):
                os.dup2(each, place)
            os.closerange(3, 1024)  # with the streams of other runs, whose end they would not see, and the lock of the folder
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
            sys.argv = ["-c", paths]
            exec(program, {})
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
