"""Simulated comparisons through the product's own judge: how often it says "faster" or "slower", and how often it should."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.profile import FULL
from truestep.compare import summarize
from truestep.compare.against import TimeVerdict

COMPARISONS = 1000 if FULL else 60
SEEDS = tuple(range(8))
SPREAD = 0.08
CLAIMS = (TimeVerdict.FASTER, TimeVerdict.SLOWER)


def times(generator, mean):
    s = math.sqrt(math.log1p(SPREAD**2))
    return [float(t) for t in mean * generator.lognormal(-s * s / 2, s, size=len(SEEDS))]


def verdicts(declare, raced, means, *, seed):
    """Of many comparisons, each candidate's verdict on time; `means` are its mean seconds, the baseline's first."""
    generator = np.random.default_rng(seed)
    protocol = declare(candidates=tuple(means), seeds=SEEDS, budget_seconds=100.0)
    for _ in range(COMPARISONS):
        rows = {name: times(generator, mean) for name, mean in means.items()}
        summary = summarize(protocol, raced(protocol, **rows))
        yield {row.standing.candidate: row.against.time for row in summary.rows if row.against is not None}


def most(rate):
    """The count that a fair judge exceeds once in 10,000 simulations."""
    return int(stats.binom.ppf(1 - 1e-4, COMPARISONS, rate))


def test_equal_candidates_are_called_different_at_most_at_the_nominal_rate(declare, raced):
    found = [verdict["fp16"] for verdict in verdicts(declare, raced, {"fp32": 10.0, "fp16": 10.0}, seed=1)]
    claimed = sum(verdict in CLAIMS for verdict in found)
    assert claimed <= most(0.05)
    assert claimed > 0, "a judge that never speaks would pass too"


def test_any_of_three_equal_candidates_is_called_different_at_most_at_the_nominal_rate(declare, raced):
    means = dict.fromkeys(("fp32", "fp16", "bf16", "tf32"), 10.0)
    found = verdicts(declare, raced, means, seed=2)
    assert sum(any(one in CLAIMS for one in verdict.values()) for verdict in found) <= most(0.05)


@pytest.mark.parametrize(("mean", "wanted"), [(10.0 / 1.3, TimeVerdict.FASTER), (13.0, TimeVerdict.SLOWER)])
def test_a_true_ratio_of_1_3_is_called_by_its_name_in_four_of_five_comparisons(declare, raced, mean, wanted):
    found = [verdict["fp16"] for verdict in verdicts(declare, raced, {"fp32": 10.0, "fp16": mean}, seed=3)]
    assert found.count(wanted) >= 0.8 * COMPARISONS
    assert not set(found) & (set(CLAIMS) - {wanted}), "never by the other"
