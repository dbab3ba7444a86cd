"""fp32 and tf32, too many codes to list: by cases against numpy, torch and the float32 bit pattern."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from truestep.formats import named

FP32, TF32 = named("fp32"), named("tf32")
FLOATS = st.floats(allow_nan=False)
# uniform over float32's bit patterns, so that subnormals and the neighbourhoods of powers of two are met
FLOAT32_BITS = st.integers(0, 2**32 - 1).filter(lambda bits: bits % 2**31 <= 0x7F800000)


def float32(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


@given(FLOATS)
def test_fp32_rounds_float64_as_numpy_and_torch_do(number):
    with np.errstate(over="ignore"):
        theirs = np.float64(number).astype(np.float32)
    assert FP32.round(number) == theirs == torch.tensor(number, dtype=torch.float64).float().item()
    assert math.copysign(1, FP32.round(number)) == math.copysign(1, theirs)


@given(FLOAT32_BITS)
def test_fp32_codes_are_the_bit_patterns(bits):
    assert FP32.decode(bits) == float32(bits)
    assert FP32.encode(float32(bits)) == bits


@given(FLOAT32_BITS)
def test_tf32_rounds_a_float32_as_its_bit_pattern_is_rounded_to_ten_mantissa_bits(bits):
    """Half of the 13 dropped bits, less one where the last kept bit is even, carries into the rest."""
    rounded = (bits + 0xFFF + (bits >> 13 & 1)) >> 13
    assert TF32.encode(float32(bits)) == rounded
    assert TF32.round(float32(bits)) == float32(rounded << 13)


@given(st.fractions())
@pytest.mark.parametrize("number_format", [FP32, TF32, named("bf16"), named("fp16")], ids=lambda each: each.name)
def test_no_neighbour_is_nearer_to_a_fraction(number_format, number):
    code = number_format.encode(abs(number))
    if code and math.isfinite(number_format.decode(code + 1)):
        lower, nearest, upper = (Fraction(number_format.decode(code + step)) for step in (-1, 0, 1))
        error = abs(abs(number) - nearest)
        assert error <= min(abs(number) - lower, upper - abs(number))
        if error in (abs(number) - lower, upper - abs(number)):
            assert code % 2 == 0
