"""MLPerf's reference statistics."""

import math

import pytest
from scipy import stats

from truestep import errors
from truestep.stats import trimmed_reference

EXAMPLE = [16, 14, 16, 17, 16, 16, 15, 16, 15, 16]


def test_documented_example_gives_the_documented_numbers():
    reference = trimmed_reference(EXAMPLE)
    assert reference.mean == 15.75
    # documented to two decimals
    assert reference.deviation == pytest.approx(0.43, abs=0.005)
    assert reference.bound == pytest.approx(15.21, abs=0.005)


def test_bound_is_where_a_pooled_one_sided_t_test_reaches_alpha():
    reference = trimmed_reference(EXAMPLE, submission_runs=5, alpha=0.05)
    test = stats.ttest_ind_from_stats(
        reference.bound, reference.deviation, 3, reference.mean, reference.deviation, 8, alternative="less"
    )
    # a quantile and a distribution function, each good to about 1e-12
    assert test.pvalue == pytest.approx(0.05, rel=1e-9)


def test_equal_runs_have_their_own_mean_as_bound():
    reference = trimmed_reference([4.0] * 5)
    assert (reference.mean, reference.deviation, reference.bound) == (4, 0, 4)


def test_fewer_than_three_runs_no_freedom_and_infinite_runs_are_refused():
    with pytest.raises(errors.UsageError, match="3 runs"):
        trimmed_reference([1.0, 2.0])
    with pytest.raises(errors.UsageError, match="3 runs"):
        trimmed_reference([1.0, 2.0, 3.0], submission_runs=2)
    with pytest.raises(errors.UsageError, match="freedom"):
        trimmed_reference([1.0, 2.0, 3.0], submission_runs=3)
    with pytest.raises(errors.UsageError, match="finite"):
        trimmed_reference([1.0, 2.0, math.inf, math.inf])
    with pytest.raises(errors.UsageError, match="alpha"):
        trimmed_reference([1.0, 2.0, 3.0, 4.0], alpha=0)
