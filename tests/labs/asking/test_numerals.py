"""Numbers are read as people type them, to the nearest float, and whatever else is typed is no number and harms nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truestep.labs.asking.numerals import LONGEST, read_number, read_numbers

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TYPED = st.text(alphabet="0123456789.,e+-^*/x() _%⁻⁴²", max_size=2 * LONGEST)


@given(FINITE)
def test_what_python_prints_is_read_back_to_the_bit(number):
    assert math.copysign(1, read_number(repr(number))) == math.copysign(1, number) or number == 0
    assert read_number(f"  {number!r} ") == number


@given(st.integers(-(10**15), 10**15))
def test_thousands_may_be_parted(number):
    assert read_number(f"{number:,}") == read_number(f"{number:_}") == read_number(f"{number:,}".replace(",", " ")) == number


@given(st.integers(-(2**53), 2**53), st.integers(1, 2**53))
def test_a_fraction_is_the_nearest_float(above, below):
    assert read_number(f"{above}/{below}") == read_number(f"{above} / {below}") == above / below


@given(st.integers(-1074, 1023))
def test_powers_of_two_are_exact_however_they_are_written(power):
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    for text in (f"2^{power}", f"2**{power}", f"2^({power})", f"2{raised}", f"1 x 2^{power}"):
        assert read_number(text) == math.ldexp(1.0, power)


@given(st.one_of(st.text(), TYPED))
def test_no_text_breaks_it(text):
    for unit in (None, "bytes"):
        assert isinstance(read_number(text, unit=unit), (float, type(None)))
    read_numbers(text)


@given(FINITE, FINITE)
def test_several_numbers_are_read_in_order(one, other):
    for text in (f"[{one!r}, {other!r}]", f"{one!r} {other!r}", f"({one!r};{other!r})"):
        assert read_numbers(text) == (one, other)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("6.1e-5", 6.1e-5),
        ("3 x 10^-5", 3e-5),
        ("3·10⁻⁵", 3e-5),
        ("about 204.8", 204.8),
        ("≈ .5", 0.5),
        ("-1/1024", -1 / 1024),
        ("-2^2", -4.0),
        ("6/2/3", 1.0),
        ("50 %", 0.5),
        ("-inf", -math.inf),
        ("infinite", math.inf),
        ("12\N{NO-BREAK SPACE}345.5", 12345.5),
    ],
)
def test_ways_to_write(text, number):
    assert read_number(text) == number


@pytest.mark.parametrize(
    "text",
    ["1,5", "1.2.3", "1/0", "0^-1", "2^", "2^(3", "2 + 2", "1 1/2", "2^3^4", "--1", "0x10", "1e9999", "9^9999", "1,00", "%", "x"],
)
def test_what_could_mean_two_things_or_nothing_is_not_read(text):
    assert read_number(text) is None


def test_a_unit_may_follow_and_another_one_may_not():
    assert read_number("16 Bytes", unit="bytes") == 16
    assert read_number("16 bits", unit="bytes") is None
    assert read_number("12 %", unit="%") == 12
