"""Student's interval of a mean: golden values, degenerate samples, coverage."""

import math

import numpy as np
import pytest

from truestep import errors
from truestep.stats import Interval, mean_interval


def test_interval_of_five_times_is_the_golden_one():
    interval = mean_interval([10, 12, 20, 11, 15])
    assert interval is not None
    # golden values are given to two decimals
    assert (interval.low, interval.high) == pytest.approx((8.59, 18.61), abs=0.005)
    assert interval.confidence == 0.95


def test_one_value_has_no_interval():
    assert mean_interval([3.0]) is None


def test_equal_values_have_an_interval_of_width_zero():
    # 0.1 three times has a float mean that differs from 0.1 by an ulp: the spread must be 0 all the same
    assert mean_interval([0.1, 0.1, 0.1]) == Interval(low=np.mean([0.1] * 3), high=np.mean([0.1] * 3), confidence=0.95)


def test_a_higher_confidence_is_wider():
    narrow, wide = mean_interval([1, 2, 4], confidence=0.9), mean_interval([1, 2, 4], confidence=0.99)
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("values", [[], [1.0, math.inf], [math.nan, 1.0]])
def test_no_values_or_values_without_a_mean_are_refused(values):
    with pytest.raises(errors.UsageError, match="the mean of"):
        mean_interval(values)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1, math.nan])
def test_a_confidence_outside_zero_to_one_is_refused(confidence):
    with pytest.raises(errors.UsageError, match="confidence"):
        mean_interval([1, 2], confidence=confidence)


def test_t_covers_95_percent_at_five_lognormal_times_where_the_percentile_bootstrap_covers_84():
    rng = np.random.default_rng(20260101)
    trials, runs, cv, resamples = 2000, 5, 0.08, 400
    sigma = math.sqrt(math.log1p(cv**2))
    truth = math.exp(sigma**2 / 2)
    samples = rng.lognormal(0.0, sigma, (trials, runs))
    covered_t = covered_bootstrap = 0
    for sample in samples:
        interval = mean_interval(sample.tolist())
        assert interval is not None
        covered_t += interval.low <= truth <= interval.high
        means = sample[rng.integers(0, runs, (resamples, runs))].mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        covered_bootstrap += low <= truth <= high
    # a share p over 2000 trials varies by sqrt(p (1 - p) / 2000): 0.005 at .95 and 0.008 at .84; four of these
    assert covered_t / trials == pytest.approx(0.95, abs=0.02)
    assert covered_bootstrap / trials == pytest.approx(0.84, abs=0.033)
