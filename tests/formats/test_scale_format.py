"""e8m0, the scale of a block: powers of two, no sign, no zero, and two stacks that disagree about the rest."""

import itertools
import math

import ml_dtypes
import numpy as np
import torch

from truestep.formats import named

E8M0 = named("e8m0")
POWERS = [math.ldexp(1.0, power) for power in range(-127, 128)]


def outside(number):
    """What torch and what ml_dtypes make of a float32 number."""
    with np.errstate(all="ignore"):
        theirs = np.float32(number).astype(ml_dtypes.float8_e8m0fnu).astype(np.float64).item()
    return torch.tensor(number).to(torch.float8_e8m0fnu).to(torch.float64).item(), theirs


def test_the_nearest_power_is_taken_and_a_tie_goes_up():
    for code, (lower, upper) in enumerate(itertools.pairwise(POWERS)):
        assert E8M0.encode(lower) == code
        assert E8M0.encode(1.5 * lower) == code + 1
        assert E8M0.encode(math.nextafter(1.5 * lower, 0)) == code
        assert E8M0.encode(math.nextafter(upper, 0)) == code + 1


def test_torch_and_ml_dtypes_agree_above_the_smallest_float32_normal():
    for lower in POWERS[1:-1]:
        for number in (lower, 1.5 * lower, 1.5 * lower * (1 - 2**-23), 1.75 * lower):
            assert outside(number) == (E8M0.round(number), E8M0.round(number))


def test_torch_and_ml_dtypes_round_up_too_early_between_the_two_smallest_powers():
    """2^-127 is subnormal in float32; both read its leading bit as the rounding bit."""
    number = 1.25 * 2**-127
    assert outside(number) == (2**-126, 2**-126)
    assert E8M0.round(number) == 2**-127


def test_zero_becomes_the_smallest_power_here_and_in_torch_and_nan_in_ml_dtypes():
    torchs, theirs = outside(0.0)
    assert E8M0.round(0.0) == E8M0.round(-0.0) == E8M0.round(1e-300) == torchs == 2**-127
    assert math.isnan(theirs)


def test_a_negative_number_is_nan_here_and_in_ml_dtypes_while_torch_drops_its_sign():
    torchs, theirs = outside(-2.0)
    assert math.isnan(E8M0.round(-2.0))
    assert math.isnan(E8M0.round(-math.inf))
    assert math.isnan(theirs)
    assert torchs == 2


def test_an_overflow_is_nan_everywhere():
    assert math.isnan(E8M0.round(1.5 * 2**127))
    assert math.isnan(E8M0.round(math.inf))
    assert all(math.isnan(number) for number in outside(1.5 * 2**127))


def test_without_a_mantissa_there_is_no_subnormal():
    assert E8M0.smallest_subnormal is None
    assert E8M0.smallest_normal == 2**-127
