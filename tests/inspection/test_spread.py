"""Losses follow from counts: exactly as the reference rounding has them, for every number of the small formats and every edge."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest

from tests.inspection.samples import normal
from truestep.formats import FORMATS, Format
from truestep.inspection.spread import BOUNDS, STORABLE, Losses, Spread, flush_bound, normal_bound, overflow_bound


def rounded(stored: Format, number: Fraction) -> Losses:
    """What the reference rounding makes of one number."""
    if stored.specials == "finite" or stored.overflow == "saturate":
        beyond = number > Fraction(stored.max) and stored.round(number, overflow="saturate") == stored.max
        wide = Format(name="wide", sign=1, exponent=8, mantissa=stored.mantissa, specials="ieee", overflow="infinity", source="")
        beyond = beyond and wide.round(number) > stored.max
    else:
        beyond = not math.isfinite(stored.round(number))
    result = stored.max if beyond else stored.round(number)
    return Losses(
        elements=1,
        flushed=int(result == 0),
        subnormal=int(0 < result < stored.smallest_normal),
        overflowed=int(beyond),
    )


def edges(stored: Format) -> list[float]:
    """Every place where the fate of a number changes, and its neighbours among float64."""
    places = [flush_bound(stored), normal_bound(stored), overflow_bound(stored)[0], Fraction(stored.max)]
    places += [Fraction(stored.smallest_normal), 2 * flush_bound(stored), Fraction(1)]
    found = [float(place) for place in places if place < Fraction(2) ** 1000]
    return [near for x in found for near in (math.nextafter(x, 0), x, math.nextafter(x, math.inf))]


@pytest.mark.parametrize("name", STORABLE)
def test_losses_are_the_reference_roundings_at_every_edge(name: str) -> None:
    stored = FORMATS[name]
    for number in edges(stored):
        for scale in (0, 3, -3):
            moved = number * 2.0**-scale
            if moved == 0 or not math.isfinite(moved) or moved * 2.0**scale != number:
                continue
            assert Spread.of([moved]).losses(stored, scale=scale) == rounded(stored, Fraction(number)), (number, scale)


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e2m3", "e3m2", "e2m1"])
def test_losses_are_the_reference_roundings_for_every_number_and_every_middle(name: str) -> None:
    stored = FORMATS[name]
    numbers = sorted({abs(stored.decode(code)) for code in range(1 << stored.bits) if math.isfinite(stored.decode(code))})
    middles = [(low + high) / 2 for low, high in itertools.pairwise(numbers)]
    for number in [*numbers[1:], *middles]:
        assert Spread.of([number]).losses(stored) == rounded(stored, Fraction(number)), number


def test_ties_of_float16_go_as_the_numbers_page_says() -> None:
    fp16 = FORMATS["fp16"]
    spread = Spread.of([2.0**-25, 2.0**-25 * (1 + 2.0**-10), 65519.996, 65520.0])
    assert spread.losses(fp16) == Losses(elements=4, flushed=1, subnormal=1, overflowed=1)


def test_adding_is_associative_has_a_zero_and_is_counting_together() -> None:
    draws = [normal(sigma, count=50, zeros=3, seed=seed) for seed, sigma in enumerate((1e-8, 1.0, 1e5))]
    one, two, three = draws
    assert (one + two) + three == one + (two + three)
    assert one + Spread(bins={}) == one
    generator = random.Random(1)
    left, right = ([generator.gauss(0, 1) for _ in range(20)] for _ in range(2))
    assert Spread.of(left) + Spread.of(right) == Spread.of(left + right)


def test_every_element_is_counted_once() -> None:
    spread = Spread.of([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, 2.0**-1000])
    assert (spread.elements, spread.nonzero, spread.zeros, spread.infinities, spread.nans) == (7, 2, 2, 2, 1)
    assert sum(spread.histogram.values()) == spread.nonzero


def test_no_format_of_the_table_needs_a_bound_that_is_not_there() -> None:
    assert all(1 <= bound < 2 for bound, _ in BOUNDS)
    for stored in STORABLE.values():
        assert normal(1.0).losses(stored).elements == 400
