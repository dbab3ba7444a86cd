"""Which line of the user's own code a call came from, read off the stack."""

from __future__ import annotations

import sys
from types import CodeType, FrameType, TracebackType

from truestep.audit.site import Place, Site
from truestep.probe.owners import OWNERS

DEPTH = 8
"""How many of the user's lines above a call are kept."""

Lines = tuple[int | tuple[int, int] | None, ...]
_SITES: dict[Lines, tuple[Site | None, list[CodeType]]] = {}
"""What was told of a stack of lines, with their code, which keeps its number its own."""

SITES = 4096
"""So many are remembered at once."""


def here(frame: FrameType | None = None) -> Site | None:
    """The user's line that led to this call; where only libraries did, theirs; None where neither did."""
    frame = sys._getframe(1) if frame is None else frame
    library: FrameType | None = None
    users: list[FrameType] = []
    below: int | None = None
    while frame is not None and len(users) < DEPTH:
        whose = OWNERS[frame.f_code.co_filename]
        if whose == "user":
            users.append(frame)
        elif whose == "library" and not users:
            library = frame
        elif whose == "library" and below is None:
            below = len(users)
        frame = frame.f_back
    chain = users if library is None else [library, *users]
    lines = (below, *[(id(each.f_code), each.f_lasti) for each in chain])
    known = _SITES.get(lines)
    if known is None:
        if len(_SITES) >= SITES:
            _SITES.clear()
        known = _SITES[lines] = _site(users, library, below), [each.f_code for each in chain]
    return known[0]


def _site(users: list[FrameType], library: FrameType | None, below: int | None) -> Site | None:
    places, outer = [_place(each) for each in users], None if library is None else _place(library)
    if places:
        below = below if below is not None and below < len(places) else None
        return Site(place=places[0], callers=tuple(places[1:]), library=outer, below_library=below)
    return None if outer is None else Site(place=outer)


def of_traceback(trace: TracebackType | None) -> Site | None:
    """Where an exception was raised: the innermost line of the user's own code, and the library line that it came from."""
    places: list[Place] = []
    library: Place | None = None
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        place = Place(path=path, line=trace.tb_lineno, function=trace.tb_frame.f_code.co_name)
        if OWNERS[path] == "user":
            places, library = [place, *places], None
        elif OWNERS[path] == "library" and library is None:
            library = place
        trace = trace.tb_next
    if places:
        return Site(place=places[0], callers=tuple(places[1:DEPTH]), library=library)
    return None if library is None else Site(place=library)


def user_frame(frame: FrameType | None = None) -> FrameType | None:
    """The innermost frame of the user's own code; None where there is none."""
    frame = sys._getframe(1) if frame is None else frame
    while frame is not None and OWNERS[frame.f_code.co_filename] != "user":
        frame = frame.f_back
    return frame


def _place(frame: FrameType) -> Place:
    code = frame.f_code
    return Place(path=code.co_filename, line=frame.f_lineno, function=code.co_name)
