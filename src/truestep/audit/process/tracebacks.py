"""Takes the audit's own frames out of a script's traceback, which then looks as it does without an audit."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

_OURS = str(Path(__file__).parents[1]) + os.sep


def without_ours(error: BaseException) -> None:
    """Leaves no frame of the audit in the traceback of `error`, nor in those of what led to it."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = _theirs(each.__traceback__)
            waiting += [each.__cause__, each.__context__]


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """The first frame that is not the audit's; those after it are linked to each other."""
    first = at = _next(trace)
    while at is not None:
        following = at.tb_next = _next(at.tb_next)
        at = following
    return first


def _next(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace
