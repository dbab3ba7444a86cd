"""The range of scales that loses nothing: nothing is lost at its ends, something one power of two beyond them."""

from __future__ import annotations

import pytest

from tests.inspection.samples import normal
from truestep.formats import FORMATS
from truestep.inspection.scales import scale_range
from truestep.inspection.spread import STORABLE, Spread


@pytest.mark.parametrize("name", STORABLE)
@pytest.mark.parametrize("numbers", [[1.0], [464.0], [448.0, 449.0], [2.0**-25], [0.1, 0.7, 0.3], [2.0**-9, 1.9375]])
def test_nothing_is_lost_at_the_ends_and_something_beyond(name: str, numbers: list[float]) -> None:
    spread, stored = Spread.of(numbers), FORMATS[name]
    found = scale_range(spread, stored)
    if found.lossless is None:
        assert all(spread.losses(stored, scale=scale).lost for scale in range(-80, 80))
        return
    low, high = found.lossless
    assert spread.losses(stored, scale=low).lost == spread.losses(stored, scale=high).lost == 0
    assert spread.losses(stored, scale=low - 1).flushed
    assert spread.losses(stored, scale=high + 1).overflowed
    if found.normal is not None:
        full, top = found.normal
        assert spread.losses(stored, scale=full).subnormal == 0
        assert spread.losses(stored, scale=full - 1).subnormal
        assert top == high


def test_numbers_too_wide_for_a_format_get_the_scale_that_loses_least() -> None:
    spread = Spread.of([2.0**-30, *[2.0**20] * 3])
    found = scale_range(spread, FORMATS["fp16"])
    assert found.lossless is None
    assert found.least_losses is not None
    assert found.least is not None
    assert found.least_losses.lost == 1 == min(spread.losses(FORMATS["fp16"], scale=k).lost for k in range(-60, 60))
    assert "no scale loses nothing in fp16" in str(found)


def test_zeros_alone_have_no_range_and_say_so() -> None:
    found = scale_range(Spread.of([0.0, 0.0]), FORMATS["fp16"])
    assert (found.lossless, found.normal, found.least, found.advised) == (None, None, None, None)
    assert str(found) == "no number that fp16 could lose"


def test_the_advised_scale_loses_nothing_where_one_does() -> None:
    spread = normal(1e-7)
    advised = scale_range(spread, FORMATS["fp16"]).advised
    assert advised is not None
    assert spread.losses(FORMATS["fp16"], scale=advised).lost == 0


@pytest.mark.parametrize("overflowed_at", [5, 6, 7, 10, 16, 17])
def test_no_range_reaches_a_scale_at_which_numbers_were_seen_to_overflow(overflowed_at: int) -> None:
    spread = Spread.of([2.0**-30, 1.0])  # 2^6 .. 2^15 without that
    found = scale_range(spread, FORMATS["fp16"], overflowed_at=overflowed_at)
    top = min(15, overflowed_at - 1)
    assert found.lossless == ((6, top) if top >= 6 else None)
    assert found.advised is not None
    assert found.advised == top
    assert f"; numbers overflowed at 2^{overflowed_at}" in str(found)
    if found.least_losses is not None:
        assert found.least_losses.lost == 1
