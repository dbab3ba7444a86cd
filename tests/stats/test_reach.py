"""The exact interval of a reach rate."""

import pytest
from scipy import stats

from truestep import errors
from truestep.stats import clopper_pearson


@pytest.mark.parametrize(("runs", "low"), [(3, 0.292), (5, 0.478), (8, 0.631), (10, 0.692)])
def test_lower_bound_when_all_reached_is_the_golden_one(runs, low):
    interval = clopper_pearson(runs, runs)
    # golden values are given to three decimals
    assert interval.low == pytest.approx(low, abs=0.0005)
    assert interval.high == 1


def test_ends_are_the_beta_quantiles_of_the_docstring():
    k, n, a = 4, 5, 0.1
    interval = clopper_pearson(k, n, confidence=1 - a)
    # scipy finds the ends by root search with its default relative tolerance of about 1e-12, the quantiles directly
    assert interval.low == pytest.approx(stats.beta.ppf(a / 2, k, n - k + 1), rel=1e-9)
    assert interval.high == pytest.approx(stats.beta.ppf(1 - a / 2, k + 1, n - k), rel=1e-9)


def test_none_reached_mirrors_all_reached():
    none, every = clopper_pearson(0, 7), clopper_pearson(7, 7)
    assert none.low == 0
    assert none.high == pytest.approx(1 - every.low, rel=1e-9)


@pytest.mark.parametrize("chance", [0.05, 0.3, 0.5, 0.9, 0.99])
def test_coverage_is_never_below_the_confidence(chance):
    n = 6
    inside = [k for k in range(n + 1) if clopper_pearson(k, n).low <= chance <= clopper_pearson(k, n).high]
    assert sum(stats.binom.pmf(inside, n, chance)) >= 0.95


@pytest.mark.parametrize(("reached", "runs"), [(0, 0), (1, 0), (4, 3), (-1, 3)])
def test_a_rate_of_no_possible_runs_is_refused(reached, runs):
    with pytest.raises(errors.UsageError, match="reach rate"):
        clopper_pearson(reached, runs)
