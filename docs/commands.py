"""Writes docs/commands.md: every command, as its own --help tells it.

`make reference` runs this; tests/architecture/test_public.py fails where the page is not what it would write.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from unittest import mock

from truestep.cli import commands, main

PAGE = Path(__file__).with_name("commands.md")

HEAD = """# Commands

What each command prints under `--help`. Written by `make reference`; change the commands.

Data go to stdout and talk to stderr. Exit codes: 0 done and nothing that was asked to fail has failed; 1 errors or warnings
found by `audit`, a failed `verify` or lab, a `--fail-if` that holds or cannot be told; 2 usage; 3 it could not be run;
130 and 143 after Ctrl-C and SIGTERM, once state is saved; 141 for a reader that has gone.
"""


def text() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(f"## truestep {name}\n\n```text\n{help_of(name)}\n```\n" for name in commands())])


def help_of(command: str) -> str:
    """What `truestep COMMAND --help` prints on a page of 100 columns."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mock.patch.dict(os.environ, {"COLUMNS": "100"}):
        assert main([command, "--help"]) == 0
    return "\n".join(line.rstrip() for line in printed.getvalue().rstrip().splitlines())


if __name__ == "__main__":
    PAGE.write_text(text())
