"""`truestep` as a shell starts it: in a process of its own, and a session that hears Ctrl-C together."""

from __future__ import annotations

import subprocess
import sys

from tests.hearing import HEARING


def started(*arguments: str, terminal: int | None = None) -> subprocess.Popen[str]:
    """`truestep ARGUMENTS` on pipes, or on a terminal.

    No fork of the tests' process, fast as that would be: after other tests of this folder such a fork could not train.
    """
    command = [sys.executable, "-c", HEARING, "-m", "truestep", *arguments]
    stream = subprocess.PIPE if terminal is None else terminal
    return subprocess.Popen(command, stdout=stream, stderr=stream, text=True, start_new_session=True)
