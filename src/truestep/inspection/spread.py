"""How a set of numbers is spread over powers of two, counted finely enough that every format's losses follow exactly. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import accumulate
from typing import NamedTuple

from truestep.formats import FORMATS, Format

Bound = tuple[Fraction, bool]
"""A significand from 1 to below 2, and whether the class that begins there leaves it out."""

STORABLE = {name: each for name, each in FORMATS.items() if each.specials != "scale"}
"""The formats that numbers are stored in; e8m0 holds scales alone."""


def flush_bound(stored: Format) -> Fraction:
    """Half the smallest number: what is no larger becomes 0, for that tie goes to the even 0."""
    smallest = stored.smallest_subnormal
    assert smallest is not None
    return Fraction(smallest) / 2


def normal_bound(stored: Format) -> Fraction:
    """The smallest magnitude that rounds to a normal number: half a subnormal's distance below the smallest, tie included."""
    return Fraction(stored.smallest_normal) - flush_bound(stored)


def overflow_bound(stored: Format) -> Bound:
    """The magnitude halfway from the largest number to the next, were there one; and whether that tie is still held.

    A tie goes to the even code: e4m3fn's largest number has one, and so holds 464; every other format's is odd.
    """
    largest = Fraction(stored.max)
    spacing = Fraction(2) ** (math.frexp(stored.max)[1] - 1 - stored.mantissa)
    return largest + spacing / 2, (largest / spacing) % 2 == 0


def split(magnitude: Fraction) -> tuple[int, Fraction]:
    """Exponent and significand: magnitude = significand * 2^exponent, 1 <= significand < 2."""
    numerator, denominator = magnitude.as_integer_ratio()
    exponent = numerator.bit_length() - denominator.bit_length()
    exponent -= Fraction(2) ** exponent > magnitude
    return exponent, magnitude / Fraction(2) ** exponent


def _bounds() -> tuple[Bound, ...]:
    one = Fraction(1)
    found = {(one, False), (one, True)}
    for each in STORABLE.values():
        limit, held = overflow_bound(each)
        found |= {(split(normal_bound(each))[1], False), (split(limit)[1], held)}
    return tuple(sorted(found))


BOUNDS = _bounds()
"""Where a binade is divided: at its power of two, and wherever a format of the table rounds up to its smallest normal number or
beyond its largest. Class i holds the significands from BOUNDS[i] to BOUNDS[i + 1]."""


_CLASSES = len(BOUNDS)


class _Edges(NamedTuple):
    """Where the fate of numbers changes in a format: each a binade times the number of classes, and a class."""

    kept: int
    normal: int
    overflow: int


@cache
def _edges(stored: Format) -> _Edges:
    limit, held = overflow_bound(stored)
    return _Edges(_edge(flush_bound(stored), strict=True), _edge(normal_bound(stored), strict=False), _edge(limit, strict=held))


def _edge(magnitude: Fraction, *, strict: bool) -> int:
    exponent, significand = split(magnitude)
    return exponent * _CLASSES + BOUNDS.index((significand, strict))


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Counts of numbers by binade and class of significand; zeros, infinities and NaNs beside them.

    elements = zeros + infinities + nans + the sum over all binades. Spreads of disjoint sets add up with `+`.

    >>> spread = Spread.of([0.0, 1.0, -1.5, 2.0**-25, math.inf])
    >>> spread.histogram, spread.smallest == 2**-25, spread.nonzero
    ({-25: 1, 0: 2}, True, 3)
    >>> spread.losses(FORMATS["fp16"]).flushed, spread.losses(FORMATS["fp16"], scale=1).flushed
    (1, 0)
    """

    zeros: int = 0
    infinities: int = 0
    nans: int = 0
    bins: Mapping[int, tuple[int, ...]]
    """By binary exponent e, the counts of 2^e <= |x| < 2^(e+1) in the classes that begin at `BOUNDS`."""
    smallest: float | None = None
    """Smallest finite magnitude above 0; None where there is none."""
    largest: float | None = None

    @staticmethod
    def of(numbers: list[float]) -> Spread:
        """The spread of Python floats, one after another: the reference that the measuring of tensors is held against."""
        bins: dict[int, list[int]] = {}
        finite = [abs(x) for x in numbers if math.isfinite(x) and x]
        for x in finite:
            exponent, significand = split(Fraction(x))
            row = bins.setdefault(exponent, [0] * len(BOUNDS))
            row[sum(significand > bound if strict else significand >= bound for bound, strict in BOUNDS) - 1] += 1
        return Spread(
            zeros=sum(x == 0 for x in numbers),
            infinities=sum(math.isinf(x) for x in numbers),
            nans=sum(math.isnan(x) for x in numbers),
            bins={exponent: tuple(bins[exponent]) for exponent in sorted(bins)},
            smallest=min(finite, default=None),
            largest=max(finite, default=None),
        )

    @property
    def nonzero(self) -> int:
        """How many are finite and not 0: what shares are shares of."""
        return self._above[1][0]

    @property
    def elements(self) -> int:
        """How many there are."""
        return self.nonzero + self.zeros + self.infinities + self.nans

    @property
    def histogram(self) -> dict[int, int]:
        """Counts by binary exponent."""
        return {exponent: sum(row) for exponent, row in self.bins.items()}

    def __add__(self, other: Spread) -> Spread:
        """The spread of both sets together."""
        return Spread.total([self, other])

    @staticmethod
    def total(spreads: Sequence[Spread]) -> Spread:
        """The spread of all sets together."""
        bins: dict[int, list[tuple[int, ...]]] = {}
        for each in spreads:
            for exponent, counts in each.bins.items():
                bins.setdefault(exponent, []).append(counts)
        return Spread(
            zeros=sum(each.zeros for each in spreads),
            infinities=sum(each.infinities for each in spreads),
            nans=sum(each.nans for each in spreads),
            bins={e: bins[e][0] if len(bins[e]) == 1 else tuple(map(sum, zip(*bins[e], strict=True))) for e in sorted(bins)},
            smallest=min((each.smallest for each in spreads if each.smallest is not None), default=None),
            largest=max((each.largest for each in spreads if each.largest is not None), default=None),
        )

    def shifted(self, by: int) -> Spread:
        """The spread of the same numbers times 2^by."""
        ends = [None if each is None else math.ldexp(each, by) for each in (self.smallest, self.largest)]
        bins = {exponent + by: counts for exponent, counts in self.bins.items()}
        return replace(self, bins=bins, smallest=ends[0], largest=ends[1])

    @cached_property
    def _above(self) -> tuple[int, list[int]]:
        """The lowest binade, and how many numbers lie in each class or above it, from that binade's first class on."""
        if not self.bins:
            return 0, [0]
        low, none = min(self.bins), (0,) * _CLASSES
        counts = [count for e in range(max(self.bins), low - 1, -1) for count in reversed(self.bins.get(e, none))]
        return low, [*accumulate(counts, initial=0)][::-1]

    def losses(self, stored: Format, *, scale: int = 0) -> Losses:
        """What `stored` does to the numbers times 2^scale: flushed |y| <= s/2, overflowed y that rounds beyond the largest."""
        (kept,), (normal,), (overflowed,) = self._reaching(stored, range(scale, scale + 1))
        return Losses(elements=self.nonzero, flushed=self.nonzero - kept, subnormal=kept - normal, overflowed=overflowed)

    def table(self, stored: Format, scales: range) -> dict[str, list[int]]:
        """The same at each of several scales, by the name of the loss."""
        kept, normal, overflowed = self._reaching(stored, scales)
        return {
            "flushed": [self.nonzero - each for each in kept],
            "subnormal": [more - fewer for more, fewer in zip(kept, normal, strict=True)],
            "overflowed": overflowed,
        }

    def _reaching(self, stored: Format, scales: range) -> list[list[int]]:
        """How many numbers reach each edge of `stored`, at each scale."""
        low, above = self._above
        last, starts = len(above) - 1, [(low + scale) * _CLASSES for scale in scales]
        return [[above[min(max(edge - start, 0), last)] for start in starts] for edge in _edges(stored)]

    def record(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "elements": self.elements,
            "nonzero": self.nonzero,
            "zeros": self.zeros,
            "infinities": self.infinities,
            "nans": self.nans,
            "histogram": [[exponent, count] for exponent, count in self.histogram.items()],
            "smallest": self.smallest,
            "largest": self.largest,
        }


@dataclass(frozen=True, kw_only=True)
class Losses:
    """What becomes of numbers in a format: counts of the finite ones that are not 0."""

    elements: int
    """Finite and not 0 before they were stored."""
    flushed: int
    """Became 0."""
    subnormal: int
    """Became a number below the smallest normal one, with fewer bits; not 0."""
    overflowed: int
    """Rounded beyond the largest finite number: infinite, or held at it where the format saturates."""

    @property
    def lost(self) -> int:
        """Flushed or overflowed."""
        return self.flushed + self.overflowed

    def share(self, name: str) -> float | None:
        """What "flushed", "subnormal", "overflowed" or "lost" counts as a share of `elements`, 0 to 1; None of no elements."""
        count: int = getattr(self, name)
        return count / self.elements if self.elements else None

    def __add__(self, other: Losses) -> Losses:
        """Of both sets together."""
        return Losses(
            elements=self.elements + other.elements,
            flushed=self.flushed + other.flushed,
            subnormal=self.subnormal + other.subnormal,
            overflowed=self.overflowed + other.overflowed,
        )

    def record(self) -> dict[str, object]:
        """JSON-ready: counts, and shares that are null where there are no elements."""
        counts = ("flushed", "subnormal", "overflowed")
        return {
            "elements": self.elements,
            **{name: getattr(self, name) for name in counts},
            **{f"{name}_share": self.share(name) for name in counts},
        }


NO_LOSSES = Losses(elements=0, flushed=0, subnormal=0, overflowed=0)
