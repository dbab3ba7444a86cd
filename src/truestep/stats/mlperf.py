"""Convergence of a reference as MLPerf Training states it: trimmed mean, deviation, bound for a submission."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from truestep.errors import UsageError
from truestep.stats.interval import finite_sample


@dataclass(frozen=True, kw_only=True)
class TrimmedReference:
    """What a reference took to converge, in the unit of its runs."""

    mean: float
    """The mean without the fastest and the slowest run."""
    deviation: float
    """The population standard deviation of the same runs."""
    bound: float
    """The smallest mean of a submission that is not faster than the reference by more than chance."""


def trimmed_reference(runs: Sequence[float], *, submission_runs: int = 5, alpha: float = 0.05) -> TrimmedReference:
    """Mean, deviation and lower bound of `runs` (epochs or examples to converge), the best and worst run left out.

    With r = len(runs) - 2 and q = submission_runs - 2 runs kept on either side, taken to vary alike:
    bound = mean - t(1 - alpha, r + q - 2) deviation √(1/r + 1/q).

    Raises:
        UsageError: fewer than 3 runs on either side, one that is not finite, or an alpha that is none.

    Assumes independent, normal runs. MLCommons' checker takes the deviation over all runs, its documented example over
    the runs kept, which is done here; both take the population deviation.

    Source: the reference convergence points of MLCommons, github.com/mlcommons/logging, rcp_checker.

    >>> reference = trimmed_reference([16, 14, 16, 17, 16, 16, 15, 16, 15, 16])
    >>> reference.mean, round(reference.deviation, 2), round(reference.bound, 2)
    (15.75, 0.43, 15.21)
    """
    if len(runs) < 3 or submission_runs < 3:
        hint = "the best and the worst are left out, and one at least has to stay on either side"
        raise UsageError("a trimmed mean needs 3 runs", hint=hint, runs=len(runs), submission_runs=submission_runs)
    if not 0 < alpha < 1:
        raise UsageError("alpha lies between 0 and 1", hint="0.05 is usual", alpha=alpha)
    kept = finite_sample(sorted(runs), of="a trimmed mean")[1:-1]
    r, q = len(kept), submission_runs - 2
    mean, deviation = float(kept.mean()), float(kept.std())
    if r + q == 2:
        hint = "give 4 runs on one side"
        raise UsageError("no degree of freedom is left", hint=hint, runs=len(runs), submission_runs=submission_runs)
    quantile = float(stats.t.ppf(1 - alpha, r + q - 2))
    allowance = quantile * deviation * math.sqrt(1 / r + 1 / q)
    return TrimmedReference(mean=mean, deviation=deviation, bound=mean - allowance)
