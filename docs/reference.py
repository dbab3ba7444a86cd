"""Writes docs/reference.md: every public name, in the words of its own docstring.

`make reference` runs this; tests/architecture/test_public.py fails where the page is not what it would write.
"""

from __future__ import annotations

import ast
import enum
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import truestep
from truestep import errors

PAGE = Path(__file__).with_name("reference.md")

HEAD = """# Reference

Everything that `import truestep` offers. Written from the docstrings by `make reference`; change those. The commands have
[a page of their own](commands.md).
"""


def text() -> str:
    """The whole page."""
    names = "\n".join(part for name in sorted(truestep.__all__) for part in entry(name, getattr(truestep, name)))
    tree = fenced(inspect.getdoc(errors) or "")
    return f"{HEAD}\n## Names\n\n{names}\n## Errors\n\n{tree}"


def entry(name: str, thing: Any) -> Iterator[str]:
    """The section of one public name: its signature and docstring, then its fields' words, then its public members'."""
    yield f"### truestep.{name}\n\n{fenced(described(name, thing))}"
    if inspect.isclass(thing):
        if listed := "\n".join(fields(thing)):
            yield fenced(listed)
        for member, value in vars(thing).items():
            if not member.startswith("_") and inspect.getdoc(value) and is_written(value):
                yield fenced(described(f"{name}.{member}", value))


def fields(thing: type) -> Iterator[str]:
    """Each field of a class that has a docstring below it, and that docstring: `inspect` does not know of them."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    assert isinstance(tree, ast.ClassDef)
    for field, below in pairwise(tree.body):
        words = below.value if isinstance(below, ast.Expr) else None
        if isinstance(field, ast.AnnAssign) and isinstance(words, ast.Constant) and isinstance(words.value, str):
            yield f"{ast.unparse(field)}\n{textwrap.indent(inspect.cleandoc(words.value), '    ')}"


def is_written(value: Any) -> bool:
    """Whether a class's member is a method or a property: something with words of its own."""
    return inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod))


def described(name: str, thing: Any) -> str:
    """`name(signature)` and the docstring; for an enumeration its members too."""
    thing = thing.__func__ if isinstance(thing, (classmethod, staticmethod)) else thing
    parts = [name + signature(thing), "", inspect.getdoc(thing) or ""]
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        parts += ["", *(f"{member.name} = {member.value!r}" for member in thing)]
    return "\n".join(parts)


def signature(thing: Any) -> str:
    """What it is called with and what it returns; nothing for what is not called."""
    if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, enum.Enum)):
        return ""
    full = inspect.signature(thing)
    own = [each for name, each in full.parameters.items() if name not in ("self", "cls")]
    parameters = [each if each.annotation is each.empty else each.replace(annotation=Bare(each.annotation)) for each in own]
    unsaid = inspect.isclass(thing) or full.return_annotation is full.empty
    returned = full.empty if unsaid else Bare(full.return_annotation)
    line = str(full.replace(parameters=parameters, return_annotation=returned))
    if len(line) < 100:
        return line
    lines = [f"    {each},\n" for each in parameters]
    named = [each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters]
    if True in named:
        lines.insert(named.index(True), "    *,\n")
    return "(\n" + "".join(lines) + ")" + line.rpartition(")")[2]


class Bare:
    """An annotation that is shown as it was written, without quotes."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation

    def __repr__(self) -> str:
        """The words themselves."""
        return self.annotation if isinstance(self.annotation, str) else inspect.formatannotation(self.annotation)


def fenced(words: str) -> str:
    """A block that is not run: the examples of a docstring are, where they stand."""
    return f"```text\n{words.rstrip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(text())
