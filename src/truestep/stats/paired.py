"""A candidate against the baseline, paired by seed: ratio of times, and the exact test by flipping signs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import stats

from truestep.errors import UsageError
from truestep.stats.interval import Interval, finite_sample, mean_interval
from truestep.stats.times import cut_at

EXHAUSTIVE_RUNS = 14
"""Up to this many pairs, `sign_flip` goes through all 2^n assignments of signs."""
SAMPLED_FLIPS = 2**EXHAUSTIVE_RUNS
"""Beyond it, `sign_flip` draws this many."""


class Bound(StrEnum):
    """What a ratio says where a run was cut at the budget."""

    AT_MOST = "at most"
    """The candidate was cut: its true times are longer, the true speedup is smaller."""
    AT_LEAST = "at least"
    """The baseline was cut: its true times are longer, the true speedup is larger."""
    UNDIRECTED = "of times cut at the budget"
    """Both were cut somewhere: the ratio bounds nothing."""


@dataclass(frozen=True, kw_only=True)
class PairedRatio:
    """How many times faster the candidate is than the baseline, over n pairs; above 1 is faster."""

    speedup: float
    """exp(-mean d)."""
    interval: Interval | None
    """Student's interval of the speedup; None for one pair, and where no pair reached the target on either side."""
    log_ratios: tuple[float, ...]
    """d = log y_c - log y_0, pair by pair."""
    bounds: tuple[Bound | None, ...]
    """What each pair's ratio says, as `bound` does of all."""
    bound: Bound | None
    """None where every run reached the target, so that the ratio is one."""


def paired_log_ratio(
    candidate: Sequence[float], baseline: Sequence[float], *, tau: float, confidence: float = 0.95
) -> PairedRatio:
    """The speedup of `candidate` over `baseline`, paired by position: d = log y_c - log y_0, y = min(T, tau).

    speedup = exp(-mean d), with the ends of Student's interval of the mean of d mapped likewise.

    Args:
        candidate: T of n >= 1 runs; infinity for never reached.
        baseline: T of the runs on the same seeds, in the same order and unit.
        tau: the budget, finite and above 0.
        confidence: of the interval, two-sided.

    Raises:
        UsageError: different lengths, no pairs, a time of 0 (it has no logarithm) or below, or a tau that is none.

    Assumes independent pairs and log-ratios close to normal. Where any y is tau it is a bound, named in `bound`.

    >>> result = paired_log_ratio([5, 6, 5], [10, 12, 10], tau=20)
    >>> round(result.speedup, 2), result.bound
    (2.0, None)
    >>> paired_log_ratio([math.inf, 6], [10, 12], tau=20).bound
    <Bound.AT_MOST: 'at most'>
    """
    if len(candidate) != len(baseline):
        hint = "leave out the seeds that only one side has run"
        sides = {"candidate": len(candidate), "baseline": len(baseline)}
        raise UsageError("pairs need as many runs on either side", hint=hint, **sides)
    ours, theirs = cut_at(candidate, tau), cut_at(baseline, tau)
    if 0 in ours or 0 in theirs:
        raise UsageError("a time of 0 has no ratio", hint="measure with a finer clock, or evaluate after more examples")
    log_ratios = tuple(math.log(y_c) - math.log(y_0) for y_c, y_0 in zip(ours, theirs, strict=True))
    observed = any(y < tau for y in (*ours, *theirs))
    interval = mean_interval(log_ratios, confidence=confidence) if observed else None
    return PairedRatio(
        speedup=math.exp(-math.fsum(log_ratios) / len(log_ratios)),
        interval=interval
        and Interval(low=math.exp(-interval.high), high=math.exp(-interval.low), confidence=interval.confidence),
        log_ratios=log_ratios,
        bounds=tuple(_bound(cut_candidate=y_c == tau, cut_baseline=y_0 == tau) for y_c, y_0 in zip(ours, theirs, strict=True)),
        bound=_bound(cut_candidate=tau in ours, cut_baseline=tau in theirs),
    )


def _bound(*, cut_candidate: bool, cut_baseline: bool) -> Bound | None:
    if cut_candidate and cut_baseline:
        return Bound.UNDIRECTED
    if cut_candidate:
        return Bound.AT_MOST
    return Bound.AT_LEAST if cut_baseline else None


def sign_flip(differences: Sequence[float]) -> float:
    """The two-sided p-value of paired differences: the share of sign assignments whose mean is as far from 0 as theirs.

    Exact for n <= 14 pairs: all 2^n assignments are counted, so the smallest p is 2/2^n. Beyond that 16384 assignments
    are drawn from a fixed seed and p = 2 (1 + those as far on the side of theirs) / (1 + drawn), at most 1, so that a level
    is kept as the exact test keeps it. One pair gives 1, and so do differences that are all 0.

    Raises:
        UsageError: no differences, or one that is not finite.

    Assumes that under "no difference" each difference is as likely to be negative as positive (pairs exchangeable
    within a seed); no shape of distribution.

    Source: Fisher, The design of experiments (1935), section 21.

    >>> sign_flip([-1, -2, -1, -3, -2]), sign_flip([0, 0, 0])
    (0.0625, 1.0)
    >>> sign_flip(range(1, 31)) == 2 * (1 + 0) / (1 + SAMPLED_FLIPS)  # none of the drawn assignments lies as far
    True
    """
    sample = finite_sample(differences, of="a sign-flip test")
    if len(sample) == 1 or not sample.any():
        return 1.0
    result = stats.permutation_test(
        (sample,),
        _mean,
        permutation_type="samples",
        n_resamples=SAMPLED_FLIPS,
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def _mean(sample: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(sample.mean(axis=axis))
