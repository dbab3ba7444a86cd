"""What a reader meets first: how much less of each clock B took than A, candidate by candidate, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truestep.pages.look.candidates import Look
from truestep.pages.side_by_side.sides import Sides
from truestep.pages.words import NEITHER, counted, ratio_words

NOUNS = {"seconds": "seconds", "completed": "completed updates", "examples": "examples"}


@dataclass(frozen=True, kw_only=True)
class Said:
    """One candidate's ratios in sentences."""

    candidate: str
    look: Look
    emulated: bool
    text: str
    sentences: tuple[str, ...]


def ratios(sides: Sides) -> tuple[Said, ...]:
    """Each shared candidate's, seconds first; withheld where the device of either side emulates the format."""
    found = []
    for name in sides.candidates:
        emulated, pairs = name in sides.emulated, sides.between["pairs"][name]
        by_clock = {clock: said(ratio, clock) for clock, ratio in sides.between["ratios"][name].items()}
        if emulated:
            by_clock["seconds"] = "Seconds withheld: emulated."
        first, *rest = by_clock.values()
        over = f"Over {counted(pairs, 'seed')} that both have run." if pairs else "There is no seed that both have run."
        found.append(
            Said(candidate=name, look=sides.drawn[name], emulated=emulated, text=first, sentences=(*rest, over)),
        )
    return tuple(found)


def said(ratio: Mapping[str, Any] | None, clock: str) -> str:
    """One ratio as a sentence.

    >>> said({"speedup": 2.0, "bound": None, "interval": {"low": 1.5, "high": 2.5}}, "seconds")
    'Seconds to the target: those of A are 2.00× those of B (1.50 to 2.50).'
    >>> said(None, "examples")
    'Examples to the target: no ratio.'
    """
    noun = NOUNS[clock].capitalize()
    if ratio is None:
        return f"{noun} to the target: no ratio."
    interval = ratio["interval"] and (ratio["interval"]["low"], ratio["interval"]["high"])
    if ratio_words(ratio["speedup"], bound=ratio["bound"], interval=interval) == NEITHER:
        return f"{noun} to the target: neither reached it."
    number = ratio_words(ratio["speedup"], bound=ratio["bound"], spread=False, interval=interval)
    spread = "" if interval is None else " ({} to {})".format(*(ratio_words(end, times="") for end in interval))
    return f"{noun} to the target: those of A are {number} those of B{spread}."
