"""Direction is another question than size."""

import math

import numpy as np
import pytest

from truestep.verification.bias import bias_of


def test_a_small_common_error_is_found_among_larger_ones_without_direction():
    draws = np.random.default_rng(0).normal(0.02, 0.03, size=64)
    assert bias_of(draws, allowed=0.001).beyond
    assert not bias_of(draws - draws.mean(), allowed=0.001).beyond


def test_errors_without_a_direction_are_beyond_in_one_of_forty_at_most():
    rng = np.random.default_rng(1)
    beyond = sum(bias_of(rng.normal(0, 1, size=5), allowed=0.0).beyond for _ in range(2000))
    assert beyond <= 0.05 * 2000 + 4 * math.sqrt(2000 * 0.05 * 0.95)


def test_what_rounding_may_leave_is_allowed_though_it_is_systematic():
    found = bias_of([0.0011, 0.0010, 0.0009], allowed=0.002)
    assert found.systematic
    assert not found.beyond
    assert "small" in str(found)


@pytest.mark.parametrize("way", [1, -1])
def test_both_directions_count(way):
    assert bias_of([way * 1.0, way * 1.1, way * 0.9], allowed=0.01).beyond


def test_one_attempt_has_a_mean_and_no_interval_and_none_has_neither():
    one, none = bias_of([0.5], allowed=0.01), bias_of([None, None], allowed=0.01)
    assert (one.mean, one.interval, one.beyond) == (0.5, None, False)
    assert (none.mean, none.interval, none.beyond, str(none)) == (None, None, False, "bias: not measured")
