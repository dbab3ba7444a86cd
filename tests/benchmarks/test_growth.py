"""The exponent of a power law is found, and what is not linear is told so."""

from __future__ import annotations

import pytest

from benchmarks.growth import growth_of
from benchmarks.growths import Series, aims, marks, table_of

NUMBERS = (10, 100, 1000, 10_000)


def series(exponent: float, constant: float = 0.0, beside: float | None = None) -> Series:
    return Series(
        what="parameters",
        numbers=NUMBERS,
        seconds=tuple(constant + 1e-6 * n**exponent for n in NUMBERS),
        beside=None if beside is None else tuple(1e-6 * n**beside for n in NUMBERS),
    )


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(exponent: float) -> None:
    found = growth_of(NUMBERS, [3.0 * n**exponent for n in NUMBERS])
    assert (found.exponent, found.at_the_end) == pytest.approx((exponent,) * 2)


def test_a_constant_part_flattens_the_whole_and_not_the_end() -> None:
    found = growth_of(NUMBERS, [1.0 + 0.01 * n for n in NUMBERS])
    assert found.exponent < 0.9 < found.at_the_end < 1.0


def test_the_end_reaches_back_to_a_quarter_at_least() -> None:
    """Two points close to each other tell noise."""
    found = growth_of([1, 10, 90, 100], [1.0, 10.0, 130.0, 100.0])
    assert found.at_the_end == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("measured", "met"),
    [
        (series(1.0), True),
        (series(1.0, constant=1e-3), True),
        (series(1.2), False),
        (series(1.2, beside=1.2), True),
        (series(1.2, beside=1.0), False),
        (series(1.5, constant=5e-4), False),
    ],
)
def test_linear_is_an_exponent_of_one_or_of_what_stands_beside(measured: Series, met: bool) -> None:
    assert [each.met for each in aims([measured])] == [met]
    assert ("not so for parameters" in aims([measured])[0].found) is not met


def test_the_table_has_a_line_for_each_series() -> None:
    table = table_of([series(1.0, beside=1.0), series(0.5)])
    assert [row[2:] for row in table.rows] == [("1.00", "1.00", "1.00", "1.00"), ("0.50", "0.50", "", "")]


def test_marks_are_taken_where_they_are_asked_for() -> None:
    made: list[int] = []
    assert len(list(marks((made.append(k) for k in range(10)), [2, 5, 10]))) == 3
    assert made == list(range(10))
