"""Rounding at every boundary of every format up to 16 bits: each value, each midpoint, and one ulp beside each."""

import math
from fractions import Fraction

import numpy as np
import pytest

from truestep.errors import FormatError
from truestep.formats import named

IN_TORCH = ["fp16", "bf16", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"]
IN_ML_DTYPES = ["bf16", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e2m3", "e3m2", "e2m1"]
NAN = {"e4m3fn": 0x7F, "e4m3fnuz": 0x80, "e5m2fnuz": 0x80}
INFINITY = {"fp16": 0x7C00, "bf16": 0x7F80, "e5m2": 0x7C}
LAST = {"e4m3fn": 0x7E, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x07}

OURS = INFINITY | {name: NAN[name] for name in ("e4m3fnuz", "e5m2fnuz")} | LAST
TORCH = OURS
ML_DTYPES = OURS | {"e4m3fn": NAN["e4m3fn"]}


def different(left, right):
    """At how many places two lists differ."""
    return sum(a != b for a, b in zip(left, right, strict=True))


def saturates(outsider, stack):
    """Whether the last midpoint decides nothing, because overflow gives the largest number too."""
    return stack[outsider.name] == LAST.get(outsider.name)


@pytest.mark.parametrize("working", [np.float32, np.float64])
def test_the_nearest_number_is_taken_and_a_tie_goes_to_the_even_code(signed, working):
    boundaries = signed.boundaries(working)
    encode = named(signed.name).encode
    assert [encode(number) for number in boundaries.numbers.tolist()] == boundaries.expected(OURS[signed.name])


def test_a_negative_number_rounds_as_its_mirror_image(signed):
    number_format = named(signed.name)
    mirror = 2 ** (signed.bits - 1)
    for number in signed.boundaries(np.float32).numbers.tolist():
        upper = number_format.encode(number)
        without_sign = number_format.specials == "fnuz" and upper in (0, mirror)
        assert number_format.encode(-number) == (upper if without_sign else upper + mirror)


@pytest.mark.parametrize("signed", IN_TORCH, indirect=True)
def test_torch_rounds_float32_as_we_do(signed):
    boundaries = signed.boundaries(np.float32)
    assert signed.torch_codes(boundaries.numbers) == boundaries.expected(TORCH[signed.name])


def test_ml_dtypes_and_numpy_round_float32_as_we_do_but_for_the_overflow_of_e4m3fn(signed):
    boundaries = signed.boundaries(np.float32)
    assert signed.numpy_codes(boundaries.numbers) == boundaries.expected(ML_DTYPES[signed.name])


@pytest.mark.parametrize("signed", ["fp16"], indirect=True)
def test_numpy_rounds_float64_to_float16_once_as_we_do(signed):
    boundaries = signed.boundaries(np.float64)
    assert signed.numpy_codes(boundaries.numbers) == boundaries.expected(INFINITY["fp16"])


@pytest.mark.parametrize("signed", IN_TORCH, indirect=True)
def test_torch_rounds_float64_twice_by_way_of_float32_so_that_one_side_of_each_midpoint_is_wrong(signed):
    boundaries = signed.boundaries(np.float64)
    theirs = signed.torch_codes(boundaries.numbers)
    assert theirs == signed.torch_codes(boundaries.numbers.astype(np.float32))
    assert different(theirs, boundaries.expected(TORCH[signed.name])) == len(theirs) / 4 - saturates(signed, TORCH)


@pytest.mark.parametrize("signed", IN_ML_DTYPES, indirect=True)
def test_ml_dtypes_rounds_float64_twice_too(signed):
    boundaries = signed.boundaries(np.float64)
    theirs = signed.numpy_codes(boundaries.numbers)
    assert theirs == signed.numpy_codes(boundaries.numbers.astype(np.float32))
    expected = boundaries.expected(ML_DTYPES[signed.name])
    assert different(theirs, expected) == len(theirs) / 4 - saturates(signed, ML_DTYPES)


def test_a_fraction_is_rounded_from_its_exact_value():
    middle = Fraction(2049)  # between the float16 numbers 2048 and 2050
    sliver = Fraction(1, 10**400)  # far below what a float could tell apart
    assert named("fp16").round(middle) == 2048
    assert named("fp16").round(middle + sliver) == 2050
    assert named("fp16").round(-middle - sliver) == -2050
    assert named("fp16").round(Fraction(10**400)) == math.inf


@pytest.mark.parametrize(
    ("name", "overflow", "result"),
    [
        ("fp16", "infinity", math.inf),
        ("fp16", "saturate", 65504.0),
        ("fp16", "nan", math.nan),
        ("e4m3fn", "saturate", 448.0),
        ("e4m3fn", "nan", math.nan),
        ("e5m2", "saturate", 57344.0),
        ("e4m3fnuz", "saturate", 240.0),
        ("e8m0", "saturate", 2.0**127),
        ("e2m1", "saturate", 6.0),
    ],
)
def test_an_overflow_does_what_it_is_told(name, overflow, result):
    assert named(name).round(1e39, overflow=overflow) == pytest.approx(result, rel=0, abs=0, nan_ok=True)


def test_infinity_overflows_where_there_is_none_and_stays_where_there_is():
    assert named("e4m3fn").round(-math.inf) == -448
    assert math.isnan(named("e4m3fnuz").round(math.inf))
    assert named("e2m1").round(math.inf) == 6
    for name in INFINITY:
        assert named(name).round(-math.inf) == -math.inf
        assert named(name).round(math.inf, overflow="saturate") == math.inf


@pytest.mark.parametrize("name", ["fp32", "tf32", *INFINITY, *NAN, "e8m0"])
def test_nan_stays_nan(name):
    assert math.isnan(named(name).round(math.nan))


@pytest.mark.parametrize("name", ["e2m3", "e3m2", "e2m1"])
def test_a_format_without_nan_or_infinity_refuses_to_make_one(name):
    with pytest.raises(FormatError, match="has no NaN"):
        named(name).round(math.nan)
    with pytest.raises(FormatError, match="has no NaN"):
        named(name).round(100.0, overflow="nan")
    with pytest.raises(FormatError, match="has no infinity"):
        named(name).round(100.0, overflow="infinity")


def test_minus_zero_is_kept_except_by_fnuz():
    assert math.copysign(1, named("fp16").round(-0.0)) == -1
    assert math.copysign(1, named("fp16").round(-1e-9)) == -1
    assert math.copysign(1, named("e4m3fnuz").round(-0.0)) == 1
    assert math.copysign(1, named("e4m3fnuz").round(-1e-9)) == 1
