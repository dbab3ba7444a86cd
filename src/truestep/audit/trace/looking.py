"""Looking into the frames of a script without leaving anything in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any

from truestep.audit.reading.peek import View
from truestep.probe.owners import OWNERS

DEPTH = 6
"""How many frames of the script are looked into."""
LOOKS_ITSELF = frozenset({"locals", "vars", "exec", "eval", "dir"})
"""Calls by which a function sees its variables as a mapping, which looking at its frame would change."""


def belongs(code: CodeType) -> bool:
    """Whether it is the script's own code, of which a frame may be looked into."""
    own = OWNERS[code.co_filename] == "user"
    return own and not (code.co_flags & CO_OPTIMIZED and LOOKS_ITSELF.intersection(code.co_names))


def seen(code: CodeType, line: int = 0, variables: Mapping[str, Any] | None = None) -> View:
    """A view of a frame of `code`."""
    return View(
        path=code.co_filename,
        function=code.co_name,
        first=code.co_firstlineno,
        line=line,
        variables={} if variables is None else variables,
    )


@contextmanager
def looking_into(frame: FrameType) -> Iterator[list[View]]:
    """The script's frames, the innermost first; what looking leaves in them is gone afterwards."""
    views: list[View] = []
    copies = []
    each: FrameType | None = frame
    while each is not None and len(views) < DEPTH:
        code = each.f_code
        if belongs(code):
            variables: Mapping[str, Any] = each.f_globals
            if code.co_flags & CO_OPTIMIZED:
                variables = {**each.f_globals, **each.f_locals}
                copies.append(each)
            views.append(seen(code, each.f_lineno, variables))
        each = each.f_back
    try:
        yield views
    finally:
        views.clear()
        if sys.version_info < (3, 13):  # a frame keeps what was read of it, tensors too, until it ends
            for each in copies:
                each.f_locals.clear()
