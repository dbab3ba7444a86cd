"""Times to target with runs that never arrive."""

import math

import pytest

from truestep import errors
from truestep.stats import RestrictedMean, expected_time_with_restarts, median_time, restricted_mean

GOLDEN = [10, 12, math.inf, 11, 15]


def kaplan_meier_mean(times, events, tau):
    """The area under the Kaplan-Meier curve up to tau: what a crash taken as censored turns the mean into."""
    area, survival, last = 0.0, 1.0, 0.0
    for time, event in sorted(zip(times, events, strict=True)):
        at_risk = sum(other >= time for other in times)
        area += survival * (time - last)
        survival *= 1 - event / at_risk
        last = time
    return area + survival * (tau - last)


def test_golden_runs_give_the_golden_estimates():
    result = restricted_mean(GOLDEN, tau=20)
    assert result.mean == pytest.approx(13.6, rel=1e-15)
    assert (result.interval.low, result.interval.high) == pytest.approx((8.59, 18.61), abs=0.005)
    assert (result.runs, result.tau) == (5, 20)
    assert expected_time_with_restarts(GOLDEN, tau=20) == 17.0
    assert median_time(GOLDEN) == 12


def test_a_crash_counts_as_the_whole_budget_and_not_as_censored():
    honest = restricted_mean([10, 12, 11, 15, math.inf], tau=20).mean
    rewarding = kaplan_meier_mean([10, 12, 11, 15, 3], [1, 1, 1, 1, 0], tau=20)
    assert honest == pytest.approx(13.6, rel=1e-15)
    assert rewarding == pytest.approx(12.0, rel=1e-12)


def test_a_run_that_ends_sooner_without_the_target_gains_nothing():
    # the record of a crash has T = infinity whenever it crashed; only tau enters
    assert restricted_mean([10, math.inf], tau=20).mean == 15


def test_no_run_reached_has_no_interval_and_an_infinite_expected_time():
    assert restricted_mean([math.inf] * 5, tau=20) == RestrictedMean(mean=20, interval=None, tau=20, runs=5)
    assert expected_time_with_restarts([math.inf] * 5, tau=20) == math.inf
    assert median_time([math.inf] * 5) == math.inf


def test_one_run_has_no_interval():
    assert restricted_mean([4.0], tau=20) == RestrictedMean(mean=4, interval=None, tau=20, runs=1)
    assert expected_time_with_restarts([4.0], tau=20) == 4
    assert median_time([4.0]) == 4


def test_equal_times_have_an_interval_of_width_zero():
    interval = restricted_mean([7.0, 7.0, 7.0], tau=20).interval
    assert interval.low == interval.high == 7


def test_the_median_of_an_even_number_is_infinite_when_a_middle_one_is():
    assert median_time([1, 2, math.inf, math.inf]) == math.inf
    assert median_time([1, 2, 3, math.inf]) == 2.5


def test_expected_time_equals_restricted_mean_over_reach_rate():
    assert expected_time_with_restarts(GOLDEN, tau=20) == pytest.approx(restricted_mean(GOLDEN, tau=20).mean / (4 / 5))


@pytest.mark.parametrize("estimate", [restricted_mean, expected_time_with_restarts])
@pytest.mark.parametrize("tau", [0, -1, math.inf, math.nan])
def test_a_budget_that_is_none_is_refused(estimate, tau):
    with pytest.raises(errors.UsageError, match="budget"):
        estimate([1.0], tau=tau)


@pytest.mark.parametrize("times", [[], [-1.0], [math.nan]])
def test_no_times_or_times_that_are_none_are_refused(times):
    with pytest.raises(errors.UsageError, match="time"):
        restricted_mean(times, tau=20)
    with pytest.raises(errors.UsageError, match="time"):
        expected_time_with_restarts(times, tau=20)
    with pytest.raises(errors.UsageError, match="time"):
        median_time(times)
