"""How often a candidate reaches the target: the exact interval of a proportion."""

from __future__ import annotations

from scipy import stats

from truestep.errors import UsageError
from truestep.stats.interval import Interval, checked_confidence


def clopper_pearson(reached: int, runs: int, *, confidence: float = 0.95) -> Interval:
    """The exact interval of the chance to reach the target, after `reached` of `runs` did.

    With a = 1 - confidence: low = Beta(a/2; k, n - k + 1), high = Beta(1 - a/2; k + 1, n - k), as quantiles;
    low = 0 for k = 0 and high = 1 for k = n.

    Raises:
        UsageError: no runs, or more reached than ran.

    Assumes independent runs with the same chance. It covers at least `confidence`, never less.

    Source: Clopper and Pearson, The use of confidence or fiducial limits, Biometrika 26 (1934).

    >>> interval = clopper_pearson(3, 3)
    >>> round(interval.low, 3), interval.high
    (0.292, 1.0)
    """
    if runs < 1 or not 0 <= reached <= runs:
        raise UsageError("a reach rate of no possible runs", hint="0 <= reached <= runs", reached=reached, runs=runs)
    exact = stats.binomtest(reached, runs).proportion_ci(checked_confidence(confidence), method="exact")
    return Interval(low=float(exact.low), high=float(exact.high), confidence=confidence)
