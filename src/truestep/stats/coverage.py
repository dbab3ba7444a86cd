"""How often Student's interval covers the truth for a handful of runs of which some may fail: computed, not hoped for."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy import stats

from truestep.errors import UsageError
from truestep.stats.interval import checked_confidence

DRAWS = 40_000
"""Comparisons that are drawn for one figure; its standard error is at most sqrt(0.25 / DRAWS) = 0.0025."""

USUAL_SPREAD, USUAL_BUDGET = 0.08, 2.0
"""Standard deviation over mean of seconds to a target, and a budget over that mean, where a warning has to be general."""

NOTICEABLE = 0.01
"""How far below its claim an interval's coverage is a shortfall: four standard errors of what is drawn."""


def restricted_mean_coverage(
    *, runs: int, failing: float, spread: float, budget: float, confidence: float = 0.95, seed: int = 0
) -> float:
    """The share of Student's intervals that cover E[min(T, tau)], over drawn samples of T.

    A run fails (T = infinity) with chance `failing`, and else takes a lognormal time of mean 1 and coefficient of variation
    `spread`. With f = failing, tau = budget and the lognormal's parameters s^2 = log(1 + spread^2), mu = -s^2 / 2,

        E[min(T, tau)] = f tau + (1 - f) (Phi((log tau - mu - s^2) / s) + tau (1 - Phi((log tau - mu) / s))).

    Where no run fails, this is close to `confidence` from 3 runs on. Where some do, it is far below: few runs often show no
    failure at all, and then neither mean nor spread knows of any. A sample of equal times (all failed) covers only itself.

    Args:
        runs: of a sample, 2 or more.
        failing: the chance of a failure, from 0 to below 1.
        spread: standard deviation over mean of the times of runs that reach the target, above 0.
        budget: tau over that mean, above 0.
        confidence: of the interval, two-sided.
        seed: of the draws: the same arguments give the same figure.

    Raises:
        UsageError: an argument outside its range.

    >>> abs(restricted_mean_coverage(runs=5, failing=0.0, spread=0.08, budget=2.0) - 0.95) < 0.005
    True
    >>> restricted_mean_coverage(runs=5, failing=0.1, spread=0.08, budget=2.0) < 0.7
    True
    """
    shape = _lognormal(spread)
    times = _drawn(*shape, runs=runs, failing=failing, budget=budget, seed=seed)
    return _covered(times, truth=_restricted(failing, *shape, budget), confidence=confidence)


def log_ratio_coverage(
    *, runs: int, failing: float, spread: float, budget: float, speedup: float = 1.0, confidence: float = 0.95, seed: int = 0
) -> float:
    """The share of Student's intervals of the mean of d = log min(T_c, tau) - log min(T_0, tau) that cover its expectation.

    The baseline's times as in `restricted_mean_coverage`, those of a candidate `speedup` times shorter; both fail alike. With
    failures the ratio is one of cut times, which is what a bound prints.

        E[log min(T, tau)] = f log tau + (1 - f) (mu Phi(z) - s phi(z) + log tau (1 - Phi(z))),   z = (log tau - mu) / s.

    Arguments and errors as there; `speedup` is above 0.

    >>> abs(log_ratio_coverage(runs=5, failing=0.0, spread=0.08, budget=2.0, speedup=1.3) - 0.95) < 0.005
    True
    """
    if not 0 < speedup < math.inf:
        raise UsageError("a speedup is finite and above 0", hint="1 is none", speedup=speedup)
    mu, s = _lognormal(spread)
    shift = mu - math.log(speedup)
    baseline = _drawn(mu, s, runs=runs, failing=failing, budget=budget, seed=seed)
    candidate = _drawn(shift, s, runs=runs, failing=failing, budget=budget, seed=seed + 1)
    truth = _restricted_log(failing, shift, s, budget) - _restricted_log(failing, mu, s, budget)
    return _covered(np.log(candidate) - np.log(baseline), truth=truth, confidence=confidence)


@cache
def shortfalls(*, runs: int, failing: float, confidence: float = 0.95) -> tuple[tuple[str, float], ...]:
    """The intervals of times that cover the truth less often than they say: the name of each, and how often it does.

    For `USUAL_SPREAD` and `USUAL_BUDGET`, and a candidate that is as fast as its baseline and fails as often; an interval counts
    from `NOTICEABLE` below `confidence`. Empty where both hold. The other intervals that a comparison prints need no such
    warning: that of the reach rate is exact, and that of the final quality is of the runs that have one.

    Arguments and errors as of `restricted_mean_coverage`.

    >>> [(name, round(share, 2)) for name, share in shortfalls(runs=5, failing=0.1)]
    [('restricted mean', 0.67)]
    >>> shortfalls(runs=5, failing=0.0)
    ()
    """
    intervals = (("restricted mean", restricted_mean_coverage), ("speedup", log_ratio_coverage))
    found = [
        (name, covered(runs=runs, failing=failing, spread=USUAL_SPREAD, budget=USUAL_BUDGET, confidence=confidence))
        for name, covered in intervals
    ]
    return tuple((name, share) for name, share in found if share < confidence - NOTICEABLE)


def _lognormal(spread: float) -> tuple[float, float]:
    """Parameters of a lognormal of mean 1."""
    if not 0 < spread < math.inf:
        raise UsageError("a spread is finite and above 0", hint="0.08 is usual for seconds of training", spread=spread)
    variance = math.log1p(spread**2)
    return -variance / 2, math.sqrt(variance)


def _drawn(mu: float, s: float, *, runs: int, failing: float, budget: float, seed: int) -> np.ndarray:
    """min(T, tau), a row for each sample."""
    if runs < 2 or not 0 <= failing < 1 or not 0 < budget < math.inf:
        raise UsageError(
            "no such sample can be drawn",
            hint="runs from 2, failing from 0 to below 1, a budget above 0",
            runs=runs,
            failing=failing,
            budget=budget,
        )
    generator = np.random.default_rng(seed)
    times = np.minimum(generator.lognormal(mu, s, size=(DRAWS, runs)), budget)
    return np.asarray(np.where(generator.random((DRAWS, runs)) < failing, budget, times))


def _restricted(failing: float, mu: float, s: float, budget: float) -> float:
    """E[min(T, tau)]."""
    z = (math.log(budget) - mu) / s
    mean = math.exp(mu + s * s / 2) * stats.norm.cdf(z - s)
    return float(failing * budget + (1 - failing) * (mean + budget * stats.norm.sf(z)))


def _restricted_log(failing: float, mu: float, s: float, budget: float) -> float:
    """E[log min(T, tau)]."""
    z = (math.log(budget) - mu) / s
    mean = mu * stats.norm.cdf(z) - s * stats.norm.pdf(z)
    return float(failing * math.log(budget) + (1 - failing) * (mean + math.log(budget) * stats.norm.sf(z)))


def _covered(samples: np.ndarray, *, truth: float, confidence: float) -> float:
    runs = samples.shape[1]
    quantile = stats.t.ppf((1 + checked_confidence(confidence)) / 2, runs - 1)
    half = quantile * samples.std(axis=1, ddof=1) / math.sqrt(runs)
    return float((np.abs(samples.mean(axis=1) - truth) <= half + 1e-12 * abs(truth)).mean())
