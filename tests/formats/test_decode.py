"""Every code of every format up to 16 bits, against torch and ml_dtypes."""

import math

import numpy as np
import pytest

from truestep.errors import FormatError
from truestep.formats import FORMATS, named

IN_TORCH = ["fp16", "bf16", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0"]


def decoded(outsider):
    return np.array([named(outsider.name).decode(code) for code in outsider.codes.tolist()])


def same(left, right):
    """Equal bit for bit, signs of zero included; NaN equals NaN."""
    return np.array_equal(left, right, equal_nan=True) and np.array_equal(
        np.signbit(left[~np.isnan(left)]), np.signbit(right[~np.isnan(right)])
    )


def test_every_code_has_the_value_that_ml_dtypes_gives(outsider):
    assert same(decoded(outsider), outsider.numpy_values())


@pytest.mark.parametrize("outsider", IN_TORCH, indirect=True)
def test_every_code_has_the_value_that_torch_gives(outsider):
    assert same(decoded(outsider), outsider.torch_values())


def test_a_value_encodes_to_the_code_it_came_from(outsider):
    number_format = named(outsider.name)
    for code, value in zip(outsider.codes.tolist(), decoded(outsider).tolist(), strict=True):
        assert math.isnan(value) or number_format.encode(value) == code


def test_the_counts_of_special_codes_are_the_counted_ones(outsider):
    values = outsider.numpy_values()
    number_format = named(outsider.name)
    assert number_format.nans == np.isnan(values).sum()
    assert number_format.infinities == np.isinf(values).sum()


def test_the_computed_extremes_are_the_counted_ones(outsider):
    values = outsider.numpy_values()
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    number_format = named(outsider.name)
    assert number_format.max == finite.max()
    assert (number_format.smallest_subnormal or number_format.smallest_normal) == positive.min()
    assert number_format.eps == positive[positive > 1].min() - 1


@pytest.mark.parametrize("number_format", FORMATS.values(), ids=FORMATS.keys())
def test_a_code_outside_the_format_is_refused(number_format):
    for code in (-1, 2**number_format.bits):
        with pytest.raises(FormatError, match=f"{number_format.name} has no code {code}"):
            number_format.decode(code)
