"""Looks at a command before it is started: a script that cannot run is refused, with its line, and nothing has happened."""

from __future__ import annotations

import os
import sys
import warnings
import zipfile
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from truestep.errors import RunError, UsageError


def checked(command: Sequence[str], *, module: bool) -> list[str]:
    """`command`, a script or module and its arguments, as python is to be started with it.

    Raises:
        UsageError: no command, or no such script or module.
        RunError: the script is no Python; `path` and `line` say where.
    """
    if not command:
        raise UsageError("there is no script to audit", hint="truestep audit train.py, or truestep audit -m package.train")
    if module:
        _check_module(command[0])
        return ["-m", *command]
    _check_script(command[0])
    return list(command)


def _check_script(name: str) -> None:
    path = Path(name)
    if path.is_dir():  # python runs the __main__.py of a folder
        path /= "__main__.py"
    if not path.is_file():
        raise UsageError(f"there is no script {path}", hint="name a file, or a module after -m", path=str(path))
    _compile(path)


def _check_module(name: str) -> None:
    """A part of a package is looked for without importing the package, which is the script's own to do."""
    places = [os.getcwd(), *sys.path]
    top, *inner = name.split(".")
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    spec = PathFinder.find_spec(top, places) or next(filter(None, (finder.find_spec(top, None) for finder in finders)), None)
    if spec is None:
        raise UsageError(f"there is no module {top}", hint="name it as python -m takes it, or a file without -m", module=name)
    for part in (*inner, "__main__"):
        if spec is not None and spec.submodule_search_locations is not None:
            spec = PathFinder.find_spec(f"{spec.name}.{part}", list(spec.submodule_search_locations))
    if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
        _compile(Path(spec.origin))


def _compile(path: Path) -> None:
    text = path.read_bytes()
    if text.startswith(MAGIC_NUMBER) or zipfile.is_zipfile(path):  # python runs these too
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # they are the script's, which is going to say so itself
            compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise RunError(
            f"{path}:{error.lineno}: {error.msg}", hint="mend the line; nothing was run", path=str(path), line=error.lineno
        ) from error
    except ValueError as error:
        raise RunError(f"{path}: {error}", hint="name a file of Python; nothing was run", path=str(path), line=None) from error
