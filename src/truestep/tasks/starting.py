"""Writes a commented task file to begin with, which runs as it stands."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path

from truestep.errors import FileError, UsageError

_TAKEN = ("Task", "Splits", "Tensor", "TensorDataset")
"""Names that the file imports."""


def write_starting_file(path: Path) -> str:
    """Write a task file to `path`, where nothing is yet; returns the task as the command line takes it, FILE.py:NAME.

    Raises:
        UsageError: a name that does not end in .py, or one that is taken: no file is ever overwritten.
        FileError: the file cannot be written; nothing of it is left.
    """
    if path.suffix != ".py":
        raise UsageError(
            f"{path} is no name of a task file", hint="it ends in .py: truestep tasks new my_task.py", path=str(path)
        )
    cls = class_name(path.stem)
    template = files("truestep.tasks").joinpath("template.txt").read_text(encoding="utf-8")
    name = re.sub(r"[^A-Za-z0-9]+", "-", path.stem).strip("-").lower() or "my-task"
    text = template.replace("{cls}", cls).replace("{name}", name).replace("{file}", path.name)
    _write(path, text.encode())
    return f"{path}:{cls}"


def class_name(stem: str) -> str:
    """The name of the class in a file of that name.

    >>> class_name("my_task"), class_name("resnet-50"), class_name("2d"), class_name("task")
    ('MyTask', 'Resnet50', 'MyTask', 'MyTask')
    """
    name = "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", stem))
    usable = name.isidentifier() and not keyword.iskeyword(name) and name not in _TAKEN
    return name if usable else "MyTask"


def _write(path: Path, content: bytes) -> None:
    is_ours = False
    try:
        with open(path, "xb") as file:
            is_ours = True
            file.write(content)
    except FileExistsError:
        hint = "give another name: no file is overwritten"
        raise UsageError(f"{path} is there already", hint=hint, path=str(path)) from None
    except OSError as error:
        if is_ours:
            path.unlink(missing_ok=True)
        hint = "make its folder first" if not path.parent.is_dir() else "give a place that can be written; nothing is left of it"
        raise FileError(f"{path} cannot be written: {error.strerror or error}", hint=hint, path=str(path)) from error
