"""Where in a task's code something stands or went wrong, and what that code's own failure is told as."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from truestep.errors import RunError, TaskError, TruestepError


@contextmanager
def their_code(file: str | None, *, failed: str) -> Iterator[None]:
    """Run a task's own code: what it raises becomes a RunError with its line in `file`; what we refuse in a task passes.

    `failed` says in the hint when that was. An error of ours that the code runs into keeps its own words and hint.
    """
    try:
        yield
    except (TaskError, RunError):  # told already, and by its line
        raise
    except (Exception, SystemExit) as error:  # code that parses a command line ends in SystemExit
        words, hint = (error.summary, error.hint) if isinstance(error, TruestepError) else (str(error), None)
        raise RunError(
            f"{place_of(error, file)}: {type(error).__name__}: {words}",
            hint=hint or f"the task's own code failed {failed}",
            path=file,
        ) from error


def place_of(error: BaseException, file: str | None) -> str:
    """`FILE:LINE in FUNCTION` where `error` came from: its last frame in `file`, or its last frame of all.

    A syntax error stands where it points to. "no known line" for an error that was never raised.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "no known line"
    frame = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1])
    return f"{frame.filename}:{frame.lineno} in {frame.name}"


def file_of(thing: Any) -> str | None:
    """The source file of an object's class, or of a class or function; None where there is none."""
    try:
        return inspect.getsourcefile(_defined(thing))
    except TypeError:
        return None


def line_of(thing: Any) -> str:
    """`FILE:LINE` where an object's class, or a class or function, is defined; its name where no source is known."""
    defined = _defined(thing)
    try:
        return f"{Path(inspect.getfile(defined))}:{inspect.getsourcelines(defined)[1]}"
    except (OSError, TypeError):
        return repr(defined)


def _defined(thing: Any) -> Any:
    return thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
