"""What is claimed of an interval is what fresh samples give: every interval, with failures and without."""

import math

import numpy as np
import pytest
from scipy import stats as reference

from tests.profile import FULL
from truestep import errors
from truestep.stats import clopper_pearson, mean_interval, paired_log_ratio, restricted_mean
from truestep.stats.coverage import DRAWS, log_ratio_coverage, restricted_mean_coverage, shortfalls

SAMPLES = 2000 if FULL else 300
SIGMAS = 4
"""Of the difference of two binomial shares: one false alarm in 16,000 tests."""


def allowed(share, *sizes):
    """How far two shares may lie apart that were counted over `sizes` samples."""
    return SIGMAS * math.sqrt(max(share * (1 - share), 1e-4) * sum(1 / size for size in sizes))


def draw(generator, n, failing, spread):
    """Times of mean 1, infinite for a run that fails."""
    s = math.sqrt(math.log1p(spread**2))
    times = generator.lognormal(-s * s / 2, s, size=n)
    return [math.inf if fails else float(t) for t, fails in zip(times, generator.random(n) < failing, strict=True)]


@pytest.mark.parametrize("runs", [3, 5, 8])
@pytest.mark.parametrize("failing", [0.0, 0.1, 0.4])
def test_the_restricted_mean_covers_as_often_as_is_claimed(runs, failing):
    generator, tau, spread = np.random.default_rng(runs * 100 + int(10 * failing)), 2.0, 0.08
    truth = failing * tau + (1 - failing) * 1.0  # a budget of twice the mean, 12 deviations away, cuts no run that reaches
    covered = 0
    for _ in range(SAMPLES):
        found = restricted_mean(draw(generator, runs, failing, spread), tau=tau).interval
        covered += found is not None and found.low <= truth <= found.high
    claimed = restricted_mean_coverage(runs=runs, failing=failing, spread=spread, budget=tau)
    assert abs(covered / SAMPLES - claimed) <= allowed(claimed, SAMPLES, DRAWS)


@pytest.mark.parametrize("runs", [3, 5, 8])
@pytest.mark.parametrize("failing", [0.0, 0.2])
def test_the_paired_ratio_covers_as_often_as_is_claimed(runs, failing):
    generator, tau, speedup = np.random.default_rng(runs), 2.0, 1.3
    truth = math.exp((1 - failing) * math.log(speedup))  # of times cut at the budget: a failed run is tau on either side
    covered = 0
    for _ in range(SAMPLES):
        baseline = draw(generator, runs, failing, 0.08)
        candidate = [t / speedup for t in draw(generator, runs, failing, 0.08)]
        found = paired_log_ratio(candidate, baseline, tau=tau).interval
        covered += found is not None and found.low <= truth <= found.high
    claimed = log_ratio_coverage(runs=runs, failing=failing, spread=0.08, budget=tau, speedup=speedup)
    assert abs(covered / SAMPLES - claimed) <= allowed(claimed, SAMPLES, DRAWS)


@pytest.mark.parametrize("runs", [3, 5, 8])
def test_the_mean_of_normal_qualities_covers_at_the_nominal_rate(runs):
    generator, covered = np.random.default_rng(runs), 0
    for _ in range(SAMPLES):
        found = mean_interval(list(generator.normal(0.9, 0.01, size=runs)))
        covered += found.low <= 0.9 <= found.high
    assert abs(covered / SAMPLES - 0.95) <= allowed(0.95, SAMPLES)


@pytest.mark.parametrize("runs", [3, 5, 8, 10])
def test_the_reach_rate_covers_at_least_at_the_nominal_rate_exactly(runs):
    intervals = [clopper_pearson(k, runs) for k in range(runs + 1)]
    for chance in np.linspace(0.01, 0.99, 99):
        mass = reference.binom.pmf(np.arange(runs + 1), runs, chance)
        covered = sum(p for p, found in zip(mass, intervals, strict=True) if found.low <= chance <= found.high)
        assert covered >= 0.95 - 1e-12


@pytest.mark.parametrize("runs", [3, 5, 8])
def test_without_failures_a_claim_is_the_nominal_rate(runs):
    for claim in (restricted_mean_coverage, log_ratio_coverage):
        found = claim(runs=runs, failing=0.0, spread=0.08, budget=2.0)
        assert abs(found - 0.95) <= allowed(0.95, DRAWS)


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_a_shortfall_is_told_where_runs_fail_and_none_where_they_do_not(runs):
    assert shortfalls(runs=runs, failing=0.0) == ()
    found = dict(shortfalls(runs=runs, failing=0.1))
    assert found == {"restricted mean": restricted_mean_coverage(runs=runs, failing=0.1, spread=0.08, budget=2.0)}
    assert found["restricted mean"] < 0.9


def test_a_shortfall_of_the_speedup_is_told_too():
    assert [name for name, _ in shortfalls(runs=2, failing=0.4)] == ["restricted mean", "speedup"]


def test_a_budget_that_cuts_runs_is_part_of_the_truth():
    # a budget at the median: half of the runs reach it, and the closed form has to know
    spread = 0.5
    s = math.sqrt(math.log1p(spread**2))
    found = restricted_mean_coverage(runs=200, failing=0.0, spread=spread, budget=math.exp(-s * s / 2))
    assert abs(found - 0.95) < 0.02, "with many runs the interval covers, if the truth is right"


@pytest.mark.parametrize(
    "wrong", [{"runs": 1}, {"failing": 1.0}, {"failing": -0.1}, {"spread": 0.0}, {"budget": 0.0}, {"budget": math.inf}]
)
def test_what_cannot_be_drawn_is_refused(wrong):
    asked = {"runs": 5, "failing": 0.1, "spread": 0.08, "budget": 2.0} | wrong
    with pytest.raises(errors.UsageError):
        restricted_mean_coverage(**asked)
    with pytest.raises(errors.UsageError):
        log_ratio_coverage(**asked)


def test_a_speedup_of_nothing_is_refused():
    with pytest.raises(errors.UsageError, match="speedup"):
        log_ratio_coverage(runs=5, failing=0.1, spread=0.08, budget=2.0, speedup=0.0)
