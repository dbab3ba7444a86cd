"""Holm, non-inferiority, seeds for a claim."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from truestep import errors
from truestep.stats import holm, noninferiority, seeds_needed

P = st.floats(0, 1)


def test_holm_by_hand():
    # sorted .01 .02 .04 with factors 3 2 1 -> .03 .04 .04
    assert holm([0.04, 0.01, 0.02]) == [0.04, 0.03, 0.04]


def test_holm_of_one_is_itself_and_of_none_is_none():
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(st.lists(P, min_size=1, max_size=6))
def test_holm_lies_between_the_plain_p_and_bonferronis(p_values):
    for plain, adjusted in zip(p_values, holm(p_values), strict=True):
        assert plain <= adjusted <= min(1.0, len(p_values) * plain)


@given(st.lists(P, min_size=2, max_size=6))
def test_holm_keeps_the_order(p_values):
    adjusted = holm(p_values)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[i] for i in order] == sorted(adjusted)


@given(st.lists(P, min_size=1, max_size=6), st.floats(0.001, 0.2))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values, alpha):
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    rejected = set()
    for rank, index in enumerate(order):
        if (len(p_values) - rank) * p_values[index] > alpha:
            break
        rejected.add(index)
    assert {i for i, p in enumerate(holm(p_values)) if p <= alpha} == rejected


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_a_p_value_that_is_none_is_refused(p):
    with pytest.raises(errors.UsageError, match="p-value"):
        holm([0.5, p])


def test_noninferiority_decides_by_the_one_sided_bounds():
    differences = [0.5, 1.5, 1.0, 1.0]
    half = stats.t.ppf(0.95, 3) * stats.tstd(differences) / 2
    result = noninferiority(differences, margin=2)
    assert result.upper == pytest.approx(1 + half, rel=1e-12)
    assert result.lower == pytest.approx(1 - half, rel=1e-12)
    assert noninferiority(differences, margin=1 + half + 1e-9).decision == "non-inferior"
    assert noninferiority(differences, margin=1 + half - 1e-9).decision == "undecided"
    assert noninferiority(differences, margin=1 - half + 1e-9).decision == "undecided"
    assert noninferiority(differences, margin=1 - half - 1e-9).decision == "inferior"


def test_better_than_the_baseline_is_noninferior():
    assert noninferiority([-5.0, -6.0, -5.5], margin=0.01).decision == "non-inferior"


def test_one_pair_decides_nothing():
    result = noninferiority([-100.0], margin=1)
    assert (result.decision, result.upper, result.lower, result.mean) == ("undecided", None, None, -100)


def test_equal_differences_decide_by_their_value():
    assert noninferiority([0.5] * 3, margin=1).decision == "non-inferior"
    assert noninferiority([1.0] * 3, margin=1).decision == "undecided"
    assert noninferiority([1.5] * 3, margin=1).decision == "inferior"


@pytest.mark.parametrize("margin", [0, -1, math.inf, math.nan])
def test_a_margin_that_is_none_is_refused(margin):
    with pytest.raises(errors.UsageError, match="margin"):
        noninferiority([1.0, 2.0], margin=margin)


def test_no_differences_are_refused():
    with pytest.raises(errors.UsageError, match="non-inferiority"):
        noninferiority([], margin=1)


def test_seeds_needed_are_the_golden_ones():
    assert [seeds_needed(m) for m in (1, 2, 3)] == [6, 7, 7]


@given(st.integers(1, 50), st.floats(0.0005, 0.5))
def test_seeds_needed_is_the_smallest_number_that_allows_a_claim(candidates, alpha):
    n = seeds_needed(candidates, alpha=alpha)
    assert 2 / 2**n <= alpha / candidates
    assert n == 1 or 2 / 2 ** (n - 1) > alpha / candidates


@pytest.mark.parametrize(("candidates", "alpha"), [(0, 0.05), (1, 0), (1, 1), (1, math.nan)])
def test_no_candidates_or_no_alpha_are_refused(candidates, alpha):
    with pytest.raises(errors.UsageError, match="claim"):
        seeds_needed(candidates, alpha=alpha)
