"""What a reader meets first: how much less of each clock B took than A, candidate by candidate, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truestep.pages.look.candidates import Look
from truestep.pages.side_by_side.sides import Sides
from truestep.pages.words import NEITHER, between, counted, ratio_words, significant

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
    'A takes 2.00× the seconds of B to the target (1.50 to 2.50).'
    >>> said({"speedup": 1.1, "bound": "of times cut at the budget", "interval": {"low": 1.0, "high": 1.2}}, "examples")
    'A takes 1.10× the examples of B to the target (1.00 to 1.20), of times cut at the budget.'
    >>> said(None, "examples")
    'No ratio of the examples to the target.'
    """
    noun = NOUNS[clock]
    if ratio is None:
        return f"No ratio of the {noun} to the target."
    interval = ratio["interval"] and (ratio["interval"]["low"], ratio["interval"]["high"])
    if ratio_words(ratio["speedup"], bound=ratio["bound"], interval=interval) == NEITHER:
        return f"Neither reached the target, so there is no ratio of the {noun}."
    directed = str(ratio["bound"] or "at").startswith("at")
    number = ratio_words(ratio["speedup"], bound=ratio["bound"] if directed else None)
    spread = "" if interval is None else f" ({between(*map(significant, interval))})"
    return f"A takes {number} the {noun} of B to the target{spread}{'' if directed else ', ' + ratio['bound']}."
