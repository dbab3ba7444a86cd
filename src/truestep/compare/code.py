"""Which source files a task is made of, and their digest: an edit of its code makes another protocol."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from truestep.tasks import Task
from truestep.tasks.digest import digest
from truestep.tasks.place import file_of


def code_digest(task: Task, asked: str) -> str:
    """SHA-256 over the names and the contents of the task's source files, wherever their folder lies.

    Args:
        asked: the task as it was asked for, whose FILE may hold no more than a factory.
    """
    return digest_of(source_files(task, asked))


def digest_of(files: Iterable[Path]) -> str:
    """SHA-256 over names and contents of `files`, in whatever order they come."""
    return digest(sorted((path.name, path.read_bytes()) for path in files))


def source_files(task: Task, asked: str) -> list[Path]:
    """The files of the task's classes, its FILE, and what these import from their own folders, sorted.

    What is installed elsewhere is not among them: the protocol names the versions of python, torch and truestep alone.
    What a function imports as it runs is found where it has been imported already.

    >>> from truestep.tasks import Digits
    >>> "digits.py" in [path.name for path in source_files(Digits(), "digits")]
    True
    """
    own = [asked.rpartition(":")[0]] if asked.rpartition(":")[0].endswith(".py") else []
    own += [file for cls in type(task).__mro__ if cls not in Task.__mro__ and (file := file_of(cls)) is not None]
    found = {Path(file).resolve() for file in own}
    waiting = list(found)
    while waiting:
        near = set(_neighbours(waiting.pop())) - found
        found |= near
        waiting += near
    return sorted(path for path in found if path.is_file())


def _neighbours(file: Path) -> Iterator[Path]:
    """The files below the folder of `file` that its module has imported something from."""
    for module in _modules_of(file):
        for value in list(vars(module).values()):
            name = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
            path = _file(sys.modules.get(name)) if isinstance(name, str) else None
            if path is not None and path.is_relative_to(file.parent) and "site-packages" not in path.parts:
                yield path


def _modules_of(file: Path) -> list[ModuleType]:
    return [module for module in list(sys.modules.values()) if _file(module) == file]


def _file(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return _resolved(file) if isinstance(file, str) and file.endswith(".py") else None


@functools.cache
def _resolved(file: str) -> Path:
    """Once per name: torch alone has thousands of modules, and each look at a link costs a system call or ten."""
    return Path(file).resolve()
