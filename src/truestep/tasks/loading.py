"""Finds a task: a built-in one by its name, a user's one in its file. The file is code, and is run."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from truestep.errors import TaskError
from truestep.tasks.bytes_lm import BytesLM
from truestep.tasks.checking import demand_class, demand_task
from truestep.tasks.digits import Digits
from truestep.tasks.digits_conv import DigitsConv
from truestep.tasks.logistic import Logistic
from truestep.tasks.place import their_code
from truestep.tasks.task import Task

BUILT_IN: dict[str, Callable[[], Task]] = {task.name: task for task in (Digits, DigitsConv, BytesLM, Logistic)}
NAMES = tuple(BUILT_IN)
"""The built-in tasks."""


def load(asked: str) -> Task:
    """The task called `asked`: a built-in name, or FILE.py:NAME for a class, instance or factory in a file.

    The file runs under a private module name, with its folder first on the import path while it does.

    Raises:
        TaskError: no such task, file or name, or one that is no task; says what there is.
        RunError: the file's own code failed; names its line and chains its exception.

    >>> load("digits").batch
    64
    """
    if asked in BUILT_IN:
        return BUILT_IN[asked]()
    file, _, name = asked.rpartition(":")
    if asked.endswith(".py"):
        file, name = asked, ""
    if not file.endswith(".py"):
        raise TaskError(
            f"no task is called {asked!r}",
            hint=f"built in: {', '.join(NAMES)}; your own: FILE.py:NAME",
            asked=asked,
        )
    path = Path(file).resolve()
    if not path.is_file():
        raise TaskError(f"there is no file {file}", hint=f"the path is taken from {Path.cwd()}", asked=asked, path=str(path))
    with _folder_importable(path), their_code(str(path), failed="while it was loaded"):
        module = _module(path)
        found = _named(module, name, asked)
        task = found if isinstance(found, Task) or not callable(found) else _made(found)
        if not isinstance(task, Task):
            raise TaskError(
                f"{asked} is a {type(task).__name__}, no task",
                hint="name a subclass of truestep.tasks.Task, an instance of one, or a function that returns one",
                asked=asked,
            )
        demand_task(task)
    return task


def _module(path: Path) -> ModuleType:
    """The file, run. Its module has a name of its own, so that it hides no other and its classes can be found again."""
    name = f"truestep_task_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    code = compile(path.read_bytes(), str(path), "exec")
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:  # Ctrl-C too leaves no half of a module
        del sys.modules[name]
        raise
    return module


def _named(module: ModuleType, name: str, asked: str) -> Any:
    if name and hasattr(module, name):
        return getattr(module, name)
    tasks = [key for key, value in vars(module).items() if _is_task(value) and value is not Task]
    raise TaskError(
        f"{module.__file__} holds no {name!r}" if name else f"{asked} names no task in the file",
        hint=f"tasks in it: {', '.join(tasks) or 'none'}; write FILE.py:NAME",
        asked=asked,
    )


def _is_task(value: object) -> bool:
    return isinstance(value, Task) or (isinstance(value, type) and issubclass(value, Task))


def _made(found: Callable[[], Any]) -> Any:
    if isinstance(found, type) and issubclass(found, Task):
        demand_class(found)
    return found()


@contextmanager
def _folder_importable(path: Path) -> Iterator[None]:
    """The file's folder first on the import path."""
    sys.path.insert(0, str(path.parent))
    try:
        yield
    finally:
        if str(path.parent) in sys.path:
            sys.path.remove(str(path.parent))
