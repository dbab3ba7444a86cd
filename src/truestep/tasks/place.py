"""Where in a task's code something stands or went wrong."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path
from typing import Any


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
