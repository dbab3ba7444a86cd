"""The text that comes with truestep: the first volume of Pride and Prejudice, held against its digest, in lines by chapter."""

from __future__ import annotations

import hashlib
import re
import textwrap
from importlib.resources import files
from importlib.resources.abc import Traversable

from truestep.errors import TaskError

SHA256 = "801176734df97a0bae43c7b75a4a1e250bbd2f935ec8fc0f8cd06a286831b99c"
"""Of the file's bytes; data/README.md says where they come from."""


def book() -> Traversable:
    """The file, wherever the package is installed."""
    return files("truestep.tasks").joinpath("data", "pride_and_prejudice_volume_one.txt")


def read(file: Traversable) -> str:
    """The text of `file`.

    Raises:
        TaskError: it is missing, or is not the file with the digest `SHA256`; says which.

    >>> read(book()).splitlines()[0]
    'PRIDE AND PREJUDICE'
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        hint = "install truestep again: the text comes with it"
        raise TaskError(f"the text {file} cannot be read: {error}", hint=hint, path=str(file)) from error
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise TaskError(
            f"the text {file} is not the one that the task's numbers hold for",
            hint="install truestep again; a checkout that converts line ends changes it",
            path=str(file),
            expected=SHA256,
            found=found,
        )
    return content.decode("ascii")


def chapters(text: str) -> list[list[str]]:
    """The paragraphs of each chapter, one string each, with single spaces; headings and what stands before them are left out.

    >>> chapters("TITLE\\n\\nChapter 1\\n\\nOne\\ntwo.\\n\\nThree.\\n\\nChapter 2\\n\\nFour.\\n")
    [['One two.', 'Three.'], ['Four.']]
    """
    _, *bodies = re.split(r"^Chapter \d+$", text, flags=re.MULTILINE)
    return [[" ".join(part.split()) for part in body.split("\n\n") if part.strip()] for body in bodies]


def lines(paragraphs: list[str], *, most: int) -> list[bytes]:
    """The paragraphs in lines of at most `most` bytes, the newline that ends each included; broken at spaces.

    >>> lines(["One two three.", "Four."], most=9)
    [b'One two\\n', b'three.\\n', b'Four.\\n']
    """
    broken = (textwrap.wrap(paragraph, most - 1, break_on_hyphens=False) for paragraph in paragraphs)
    return [f"{line}\n".encode("ascii") for wrapped in broken for line in wrapped]
