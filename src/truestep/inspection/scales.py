"""Which power-of-two scales bring a spread into a format without loss, and which loses least where none does. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from truestep.formats import Format
from truestep.inspection.spread import Losses, Spread, flush_bound, normal_bound, overflow_bound, split
from truestep.pages.words import percent

LOWEST, HIGHEST = -24, 32
"""The scales that tables are written for: 2^-24 to 2^32. The ranges below are not cut at them."""


@dataclass(frozen=True, kw_only=True)
class ScaleRange:
    """The loss scales 2^low to 2^high at which a format loses nothing of some numbers; each a pair (low, high) of exponents.

    With a the smallest and b the largest magnitude: nothing is flushed at 2^k exactly where 2^k a > s / 2, nothing overflows
    where 2^k b does not round beyond the largest number; s is the format's smallest.
    """

    format: str
    lossless: tuple[int, int] | None
    """None: no power of two loses nothing, or there are no numbers."""
    normal: tuple[int, int] | None
    """Where nothing is stored with fewer bits either; None: nowhere."""
    least: int | None
    """Where no scale loses nothing: the exponent of the one that loses least, the smallest of several. None otherwise."""
    least_losses: Losses | None
    """What is lost there."""
    overflowed_at: int | None = None
    """The exponent of the smallest scale at which numbers were seen to be infinite, below which all ranges end; None: at none."""

    @property
    def advised(self) -> int | None:
        """The scale to take, as an exponent: the middle of the normal range, else the top of the lossless one, else `least`."""
        if self.normal is not None:
            return sum(self.normal) // 2
        return self.least if self.lossless is None else self.lossless[1]

    def __str__(self) -> str:
        """In words."""
        seen = "" if self.overflowed_at is None else f"; numbers overflowed at 2^{self.overflowed_at}"
        if self.lossless is not None:
            low, high = self.lossless
            normal = f", with every number normal at {_range(*self.normal)}" if self.normal else ", with some numbers subnormal"
            return f"{_range(low, high)} loses nothing in {self.format}{normal}{seen}"
        if self.least_losses is None:
            return f"no number that {self.format} could lose"
        lost, of = self.least_losses.lost, self.least_losses.elements
        return f"no scale loses nothing in {self.format}; 2^{self.least} loses least, {lost} of {of} ({percent(lost / of)}){seen}"

    def record(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "format": self.format,
            "lossless": None if self.lossless is None else list(self.lossless),
            "normal": None if self.normal is None else list(self.normal),
            "least": self.least,
            "least_losses": None if self.least_losses is None else self.least_losses.record(),
            "overflowed_at": self.overflowed_at,
            "advised": self.advised,
            "words": str(self),
        }


def scale_range(spread: Spread, stored: Format, *, overflowed_at: int | None = None) -> ScaleRange:
    """The scales at which `stored` loses nothing of `spread`, by its smallest and largest number.

    Of numbers that overflowed in an attempt that alone is known: its scale 2^`overflowed_at`, and any above, is in no range.

    >>> from truestep.formats import named
    >>> str(scale_range(Spread.of([2.0**-30, 1.0]), named("fp16")))
    '2^6 .. 2^15 loses nothing in fp16, with some numbers subnormal'
    """
    if spread.smallest is None or spread.largest is None:
        return ScaleRange(format=stored.name, lossless=None, normal=None, least=None, least_losses=None)
    limit, held = overflow_bound(stored)
    high = _highest(spread.largest, limit, inclusive=held)
    if overflowed_at is not None:
        high = min(high, overflowed_at - 1)
    low = _lowest(spread.smallest, flush_bound(stored), strict=True)
    full = _lowest(spread.smallest, normal_bound(stored), strict=False)
    last = low if overflowed_at is None else min(low, overflowed_at - 1)
    least = None if low <= high else min(range(high, last + 1), key=lambda k: spread.losses(stored, scale=k).lost)
    return ScaleRange(
        format=stored.name,
        lossless=(low, high) if low <= high else None,
        normal=(full, high) if full <= high else None,
        least=least,
        least_losses=None if least is None else spread.losses(stored, scale=least),
        overflowed_at=overflowed_at,
    )


def _lowest(smallest: float, bound: Fraction, *, strict: bool) -> int:
    """The smallest k with 2^k * smallest >= bound, or > where `strict`."""
    exponent, significand = split(bound / Fraction(smallest))
    return exponent + (strict or significand > 1)


def _highest(largest: float, limit: Fraction, *, inclusive: bool) -> int:
    """The largest k with 2^k * largest < limit, or <= where `inclusive`."""
    exponent, significand = split(limit / Fraction(largest))
    return exponent - (significand == 1 and not inclusive)


def _range(low: int, high: int) -> str:
    return f"2^{low}" if low == high else f"2^{low} .. 2^{high}"
