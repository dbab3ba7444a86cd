"""From effects to verdicts: several candidates at once, a declared margin, and how many seeds a claim takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from truestep.errors import UsageError
from truestep.stats.interval import checked_confidence, finite_sample, half_width

Decision = Literal["non-inferior", "inferior", "undecided"]


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for being looked at together, in the order given: reject where adjusted <= alpha.

    With p sorted upwards, adjusted(i) = max over j <= i of min(1, (m - j) p(j)), j from 0. No p-values give none.

    Raises:
        UsageError: a p-value outside [0, 1].

    Assumes nothing about how the tests depend on each other; the chance of any false claim stays below alpha.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise UsageError("a p-value lies between 0 and 1", hint="leave out the tests that were not made", p=p)
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


@dataclass(frozen=True, kw_only=True)
class NonInferiority:
    """Whether the candidate is worse than the baseline by less than the margin."""

    decision: Decision
    mean: float
    """The mean paired difference; above 0 is worse."""
    lower: float | None
    """The one-sided lower bound of that mean; None for one pair."""
    upper: float | None
    """The one-sided upper bound of that mean; None for one pair."""
    margin: float


def noninferiority(differences: Sequence[float], *, margin: float, confidence: float = 0.95) -> NonInferiority:
    """Hold the one-sided bounds of the mean difference, mean ± t(confidence, n - 1) s / √n, against `margin`.

    "non-inferior" where the upper bound lies below the margin, "inferior" where the lower bound lies above it,
    "undecided" otherwise, which is what one pair always gives.

    Args:
        differences: candidate minus baseline on n >= 1 seeds, signed so that above 0 is worse.
        margin: the loss that still counts as none, above 0, declared before the runs, in the same unit.
        confidence: of each bound, one-sided.

    Raises:
        UsageError: no differences, one that is not finite, or a margin that is not above 0.

    Assumes independent pairs and a mean difference close to normal.

    Source: ICH E9, Statistical principles for clinical trials (1998), section 3.3.2.

    >>> noninferiority([0.001, -0.002, 0.0, 0.001, 0.002, -0.001], margin=0.01).decision
    'non-inferior'
    >>> noninferiority([0.001], margin=0.01).decision
    'undecided'
    """
    if not (math.isfinite(margin) and margin > 0):
        raise UsageError("a margin is finite and above 0", hint="declare the loss that counts as none", margin=margin)
    sample = finite_sample(differences, of="non-inferiority")
    mean = float(sample.mean())
    half = half_width(sample, quantile=checked_confidence(confidence))
    if half is None:
        return NonInferiority(decision="undecided", mean=mean, lower=None, upper=None, margin=margin)
    decision: Decision = "undecided"
    if mean + half < margin:
        decision = "non-inferior"
    elif mean - half > margin:
        decision = "inferior"
    return NonInferiority(decision=decision, mean=mean, lower=mean - half, upper=mean + half, margin=margin)


def seeds_needed(candidates: int, *, alpha: float = 0.05) -> int:
    """The seeds below which no claim about `candidates` is possible: the smallest n with 2/2^n <= alpha / candidates.

    2/2^n is the smallest two-sided p of the sign-flip test, alpha / candidates the first level of Holm's procedure.

    Args:
        candidates: how many are held against the baseline, 1 or more.
        alpha: the chance of any false claim, between 0 and 1.

    Raises:
        UsageError: no candidates, or an alpha that is none.

    >>> [seeds_needed(m) for m in (1, 2, 3, 4)]
    [6, 7, 7, 8]
    """
    if candidates < 1 or not 0 < alpha < 1:
        summary = "a claim needs a candidate and an alpha between 0 and 1"
        raise UsageError(summary, hint="0.05 is usual", candidates=candidates, alpha=alpha)
    seeds = 1
    while 2 / 2**seeds > alpha / candidates:
        seeds += 1
    return seeds
