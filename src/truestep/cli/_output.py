"""What commands print with: tables that are plain where nobody looks and never cut off, and one JSON document."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


def print_table(title: str, columns: Sequence[str], rows: Iterable[Iterable[str]], *, words: int = 1) -> None:
    """Prints a title and a table without lines on stdout; the first `words` columns are words, the rest flush right.

    Nothing is ever cut off: columns move together on a narrow terminal, and where that is not enough it breaks the lines.
    Plain text where stdout is no terminal; never a colour.
    """
    out = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    wide = Measurement.get(out, out.options.update(max_width=sys.maxsize), table).maximum
    if not out.is_terminal or wide > out.width:
        table.padding = (0, 1 if out.is_terminal else 2, 0, 0)
        out.width = max(out.width, wide)
    out.print(title, style="bold", soft_wrap=True)
    out.print(table)


@contextmanager
def stdout_is_talk(active: bool) -> Iterator[None]:
    """Inside, if `active`, what anybody writes to stdout, in Python or in C, goes to stderr: data are one document alone."""
    if not active:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def print_json(document: Any) -> None:
    """Exactly one JSON document on stdout; a number that is not finite is our mistake."""
    print(json.dumps(document, indent=2, allow_nan=False))


def resuming(name: str, command: Any, task: str) -> str:
    """The shell's line of `truestep NAME TASK` with every option that is not at its default, and with --resume."""
    words = ["truestep", name, task]
    for field in fields(command):
        value = getattr(command, field.name)
        if field.name in ("task", "resume") or value == field.default:
            continue
        words.append(f"--{field.name.replace('_', '-')}")
        words += [] if value is True else map(str, value) if isinstance(value, tuple) else [str(value)]
    return shlex.join([*words, "--resume"])
