"""The mark of a clip that nobody declared: the same norm in every attempt, or a round one, before or after unscaling. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

SAME = 1e-3
"""Relative difference of two norms that were cut to one limit: torch adds 1e-6 to a norm before it divides by it."""
VARIED = 1e-2
"""Relative difference of two gradients' norms from which on an equal one after them is no chance."""
ROUND = 2e-4
"""The same from a number of two digits, which lie closer."""


class Length(NamedTuple):
    """The norms of one attempt."""

    arrived: float
    wanted: float
    """Of what should have arrived."""
    scale: float | None
    """The loss scale; None where nobody could tell."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The limit that what arrived was cut to."""

    limit: float
    """In the units that the clip saw: times the loss scale where it acted before unscaling."""
    scaled: bool
    """Whether it acted before unscaling."""
    attempts: int
    """That were cut to it."""
    sure: bool
    """Whether attempts whose gradients differ in length were cut to the same; else the limit is a round number, no more."""
    excess: float
    """The largest norm that arrived over the one that should have: above 1 where it was too long before it was cut."""


def cut_of(lengths: Sequence[Length], now: Length) -> Cut | None:
    """What the attempt `now` was cut to; None where nothing says that it was.

    A norm that stays while the gradients differ in length is the mark; so is a round one. Where both the norm and the norm times
    the loss scale stay, the round one of them is the limit.

    >>> lengths = [Length(1 / 1024, 3.0, 1024.0), Length(1 / 1024, 2.0, 1024.0)]
    >>> cut = cut_of(lengths, lengths[0])
    >>> cut.limit, cut.scaled, cut.sure
    (1.0, True, True)
    >>> cut_of([Length(0.3127, 3.127, None), Length(0.2048, 2.048, None)], Length(0.3127, 3.127, None)) is None
    True
    """
    found = [cut for scaled in (False, True) if (cut := _cut(lengths, now, scaled=scaled)) is not None]
    likely = [cut for cut in found if cut.sure] or found
    rounded = [cut for cut in likely if is_round(cut.limit)]
    return rounded[0] if rounded else likely[0] if likely and likely[0].sure else None


def is_round(value: float) -> bool:
    """Whether somebody has chosen this number: 0.25, 1, 1.5, 30, 0.37.

    >>> [is_round(value) for value in (1.0, 0.3, 0.00025, 1 / 1024, 1 / 3)]
    [True, True, True, False, False]
    """
    mantissa = float(f"{value:.6e}".partition("e")[0])
    nearest = min((1.0, 1.5, 2.0, 2.5, *map(float, range(3, 11))), key=lambda chosen: abs(chosen - mantissa))
    return math.isclose(mantissa, nearest, rel_tol=SAME) or math.isclose(mantissa, round(mantissa, 1), rel_tol=ROUND)


def _cut(lengths: Sequence[Length], now: Length, *, scaled: bool) -> Cut | None:
    """By the norm as the clip saw it."""
    if scaled and now.scale in (None, 1.0):
        return None
    sizes = [(each.arrived * (each.scale or 1.0 if scaled else 1.0), each) for each in (*lengths, now)]
    known = [(size, each) for size, each in sizes if math.isfinite(size) and size > 0]
    limit = max((size for size, _ in known), default=0.0)
    cut = [each for size, each in known if math.isclose(size, limit, rel_tol=SAME)]
    if now not in cut:
        return None
    wanted = [each.wanted for each in cut if each.wanted > 0]
    return Cut(
        limit=limit,
        scaled=scaled,
        attempts=max(len(cut) - 1, 1),  # `now` is one of `lengths`
        sure=len(wanted) > 1 and max(wanted) > (1 + VARIED) * min(wanted),
        excess=max((each.arrived / each.wanted for each in cut if each.wanted > 0), default=1.0),
    )
