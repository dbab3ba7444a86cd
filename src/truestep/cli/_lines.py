"""Talking with a learner line by line: what is told on stdout, prompts on stderr, answers from stdin."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from typing import TypeVar

from truestep.errors import UsageError
from truestep.labs.asking.order import LETTERS

T = TypeVar("T")
WIDEST = 100
"""Columns of a line of text, on however wide a terminal."""
HOW = """At any prompt: skip leaves the exercise out, Ctrl-D ends the session (what was answered is kept), ? says this again.
Options are named by their letter, their number from the top, or their first words; numbers as 0.25, 1/4, 2^-2 or 2.5e-1."""


class Skipped(Exception):
    """This one is left out."""


def prompted(prompt: str, read: Callable[[str], T]) -> T:
    """What was typed, read; asked again until it can be."""
    while True:
        line = _typed(prompt)
        if line.strip().lower() == "skip":
            raise Skipped
        if line.strip() == "?":
            say_how()
            continue
        try:
            if not line.strip():
                raise UsageError("nothing is written", hint="skip leaves this one out, Ctrl-D ends; what was answered is kept")
            return read(line.strip())
        except UsageError as error:
            print(f"{error.summary}: {error.hint}", file=sys.stderr)


def say_how() -> None:
    """What can be typed at any prompt."""
    print(HOW, file=sys.stderr)


def paragraph() -> str:
    """An answer in words: lines up to an empty one."""
    lines = [prompted("in your words, ended by an empty line: ", str)]
    while more := _typed("").strip():
        lines.append(more)
    return "\n".join(line.strip() for line in lines)


def _typed(prompt: str) -> str:
    """A line of stdin; EOFError where there is none any more."""
    sys.stdout.flush()
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if prompt and not sys.stdin.isatty():
        print(file=sys.stderr)  # nobody has typed an end of line
    if not line:
        raise EOFError
    return line


def listed(texts: Iterable[str]) -> None:
    """Texts, each with its letter."""
    for letter, text in zip(LETTERS, texts, strict=False):
        tell(f"  {letter}  {text}", gap=False)


def print_script(script: str) -> None:
    """With numbers of lines, never broken: lines are what is asked for."""
    print()
    for number, line in enumerate(script.splitlines(), 1):
        print(f"{number:4}  {line}".rstrip())


def tell(*paragraphs: str, gap: bool = True) -> None:
    """Each line of each paragraph, broken at the width of the terminal, or COLUMNS."""
    if gap:
        print()
    for paragraph in paragraphs:
        for line in paragraph.split("\n"):
            print(broken(line))


def broken(line: str) -> str:
    """A line, broken between words at the width of the terminal, or COLUMNS; what follows stands below its first word."""
    width = max(20, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
    lead = " " * (len(line) - len(line.lstrip(" -")))
    return "\n".join(textwrap.wrap(line, width, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False))
