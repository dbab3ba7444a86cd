"""What commands print with: tables that are plain where nobody looks and never cut off, and one JSON document."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import fields
from typing import IO, Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


class Talk:
    """A stream for what is said beside the data: where it can no longer be written, nobody hears it, and work goes on.

    All but writing is the stream's own.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes, or gives to nobody."""
        try:
            return self._stream.write(text)
        except OSError:  # the reader has gone, or the disk is full
            silence(self._stream)
            return len(text)

    def flush(self) -> None:
        """Writes what is buffered, or gives it to nobody."""
        try:
            self._stream.flush()
        except OSError:
            silence(self._stream)

    def __getattr__(self, name: str) -> Any:
        """All else."""
        return getattr(self._stream, name)


def silence(stream: IO[str]) -> None:
    """Gives what a stream holds back, and what it will be given, to nobody, so that the interpreter's exit is quiet."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:  # a stream without a descriptor holds nothing back
        os.dup2(nowhere.fileno(), stream.fileno())


def open_standard_streams() -> None:
    """Leads to nobody what the process was begun without (`>&-`): else the next file that is opened would be its stderr."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            taken = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, hence this one
            assert taken == descriptor
            os.set_inheritable(taken, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115 - for the process's life


class _Data(Console):
    """A console whose reader's going away is an error as any other stream's: main knows what it means."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - rich calls this where it handles the BrokenPipeError


def print_table(title: str, columns: Sequence[str], rows: Iterable[Iterable[str]], *, words: int = 1) -> None:
    """Prints a title and a table without lines on stdout; the first `words` columns are words, the rest flush right.

    Nothing is ever cut off: columns move together on a narrow terminal, and where that is not enough it breaks the lines.
    Plain text where stdout is no terminal; never a colour.
    """
    out = _Data(file=sys.stdout, highlight=False, markup=False, emoji=False)
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
        option = f"--{field.name.replace('_', '-')}"
        values = [] if value is True else list(map(str, value)) if isinstance(value, tuple) else [str(value)]
        if values and values[0].startswith("-"):  # alone it would be an option
            words.append(f"{option}={values[0]}")
        else:
            words += [option, *values]
    return shlex.join([*words, "--resume"])
