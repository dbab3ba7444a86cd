"""Paired ratio and sign-flip test."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truestep import errors
from truestep.stats import Bound, Interval, paired_log_ratio, sign_flip
from truestep.stats.paired import EXHAUSTIVE_RUNS, SAMPLED_FLIPS


def test_twice_as_fast_on_every_seed_is_a_speedup_of_two_without_spread():
    result = paired_log_ratio([5, 6, 8], [10, 12, 16], tau=20)
    # log and exp are each good to an ulp
    assert result.speedup == pytest.approx(2, rel=1e-14)
    assert (result.interval.low, result.interval.high) == pytest.approx((2, 2), rel=1e-14)
    assert result.bound is None


def test_interval_is_students_on_the_logarithms():
    candidate, baseline = [5.0, 7.0, 6.0], [10.0, 11.0, 13.0]
    d = np.log(candidate) - np.log(baseline)
    quantile = 0.95 * math.sqrt(2 / (4 * 0.975 * 0.025))  # t(0.975, 2) in closed form
    half = quantile * d.std(ddof=1) / math.sqrt(3)
    result = paired_log_ratio(candidate, baseline, tau=20)
    assert result.log_ratios == pytest.approx(tuple(d), rel=1e-14)
    assert result.interval == Interval(
        low=pytest.approx(math.exp(-d.mean() - half), rel=1e-12),
        high=pytest.approx(math.exp(-d.mean() + half), rel=1e-12),
        confidence=0.95,
    )


def test_swapping_the_sides_inverts_the_ratio():
    forth, back = paired_log_ratio([5, 7], [10, 11], tau=20), paired_log_ratio([10, 11], [5, 7], tau=20)
    assert forth.speedup == pytest.approx(1 / back.speedup, rel=1e-14)


@pytest.mark.parametrize(
    ("candidate", "baseline", "bound"),
    [
        ([5, 6], [10, 12], None),
        ([math.inf, 6], [10, 12], Bound.AT_MOST),
        ([20, 6], [10, 12], Bound.AT_MOST),
        ([25, 6], [10, 12], Bound.AT_MOST),
        ([5, 6], [10, math.inf], Bound.AT_LEAST),
        ([math.inf, 6], [10, math.inf], Bound.UNDIRECTED),
        ([math.inf, 6], [math.inf, 10], Bound.UNDIRECTED),
    ],
)
def test_a_ratio_with_a_run_cut_at_the_budget_is_a_bound_with_its_direction(candidate, baseline, bound):
    assert paired_log_ratio(candidate, baseline, tau=20).bound is bound


def test_a_cut_run_counts_as_the_budget():
    assert paired_log_ratio([math.inf], [10], tau=20).speedup == pytest.approx(0.5, rel=1e-14)


def test_no_run_reached_anywhere_has_a_ratio_of_one_without_interval():
    result = paired_log_ratio([math.inf] * 6, [math.inf] * 6, tau=20)
    assert (result.speedup, result.interval, result.bound) == (1, None, Bound.UNDIRECTED)


def test_each_pair_has_its_own_bound():
    result = paired_log_ratio([math.inf, 6, 7, math.inf], [10, 12, math.inf, math.inf], tau=20)
    assert result.bounds == (Bound.AT_MOST, None, Bound.AT_LEAST, Bound.UNDIRECTED)


def test_one_pair_has_no_interval():
    assert paired_log_ratio([5], [10], tau=20).interval is None


def test_unequal_lengths_no_pairs_and_zero_times_are_refused():
    with pytest.raises(errors.UsageError, match="pairs") as caught:
        paired_log_ratio([1, 2], [1], tau=20)
    assert caught.value.hint
    with pytest.raises(errors.UsageError, match="no runs"):
        paired_log_ratio([], [], tau=20)
    with pytest.raises(errors.UsageError, match="time of 0"):
        paired_log_ratio([0.0], [1], tau=20)


@pytest.mark.parametrize(("runs", "p"), [(4, 0.125), (5, 0.0625), (6, 0.03125)])
def test_smallest_two_sided_p_is_the_golden_one(runs, p):
    assert sign_flip([-float(i + 1) for i in range(runs)]) == p


@pytest.mark.parametrize("differences", [[2.0], [0.0], [0.0, 0.0, 0.0]])
def test_one_pair_or_no_difference_is_no_evidence(differences):
    assert sign_flip(differences) == 1


def test_equal_differences_are_as_strong_as_any():
    assert sign_flip([0.1] * 6) == 2 / 2**6


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=8))
def test_p_is_the_share_of_all_sign_assignments(differences):
    # integers add up without rounding, so ties are exact in the reference
    observed = abs(sum(differences))
    flips = list(itertools.product([1, -1], repeat=len(differences)))
    extreme = sum(abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= observed for signs in flips)
    assert sign_flip(differences) == pytest.approx(extreme / len(flips), rel=1e-12)


def test_sign_of_the_differences_does_not_matter():
    assert sign_flip([1.0, 2.5, -0.3, 4.0]) == sign_flip([-1.0, -2.5, 0.3, -4.0])


def test_exhaustive_up_to_the_stated_number_and_sampled_reproducibly_beyond():
    assert sign_flip([1.0] * EXHAUSTIVE_RUNS) == 2 / 2**EXHAUSTIVE_RUNS
    beyond = [1.0] * (EXHAUSTIVE_RUNS + 1)
    assert sign_flip(beyond) == sign_flip(beyond)
    # sampled: (1 + hits) / (1 + drawn) on the smaller side, doubled; no hit is certain at a chance of 2^-15 per draw
    assert 2 / (1 + SAMPLED_FLIPS) <= sign_flip(beyond) < 0.002


@pytest.mark.parametrize("differences", [[], [math.inf, 1.0], [math.nan]])
def test_no_differences_or_infinite_ones_are_refused(differences):
    with pytest.raises(errors.UsageError, match="sign-flip"):
        sign_flip(differences)
