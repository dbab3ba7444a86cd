"""An interval with its confidence, and Student's interval for the mean of a few numbers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from truestep.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where a quantity lies, `low` to `high`, in its own unit; neither end is clamped to what is possible.

    >>> Interval(low=8.59, high=18.61, confidence=0.95)
    Interval(low=8.59, high=18.61, confidence=0.95)
    """

    low: float
    high: float
    confidence: float
    """The share of such intervals that cover the truth, if the assumption of the function that made it holds."""


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval | None:
    """Student's interval for the mean of `values`, in their unit: mean ± t((1 + confidence)/2, n - 1) s / √n.

    Args:
        values: n finite numbers, n >= 1.
        confidence: two-sided, between 0 and 1.

    Returns:
        None for a single value: one run has no spread. Equal values give an interval of width 0.

    Raises:
        UsageError: no values, one that is not finite, or a confidence that is none.

    Assumes independent values whose mean is close to normal. At n = 5 and lognormal times that vary by 8 % it covers
    95 %, where a percentile bootstrap covers 84 %.

    Source: Student, The probable error of a mean, Biometrika 6 (1908).

    >>> interval = mean_interval([10, 12, 20, 11, 15])
    >>> round(interval.low, 2), round(interval.high, 2)
    (8.59, 18.61)
    >>> mean_interval([10]) is None
    True
    """
    sample = finite_sample(values, of="the mean")
    half = half_width(sample, quantile=(1 + checked_confidence(confidence)) / 2)
    if half is None:
        return None
    return Interval(low=float(sample.mean()) - half, high=float(sample.mean()) + half, confidence=confidence)


def half_width(sample: np.ndarray, *, quantile: float) -> float | None:
    """t(quantile, n - 1) s / √n, in the unit of `sample`; None for a single value, 0 for equal ones.

    >>> round(half_width(np.array([10.0, 12, 20, 11, 15]), quantile=0.975), 2)
    5.01
    """
    if len(sample) < 2:
        return None
    if np.ptp(sample) == 0:  # the mean of equal numbers can be off by an ulp, which would leave a spread that is none
        return 0.0
    return float(_student(quantile, len(sample) - 1) * sample.std(ddof=1) / np.sqrt(len(sample)))


@functools.lru_cache(maxsize=256)
def _student(quantile: float, degrees: int) -> float:
    """Student's t; kept, for SciPy takes half of what an interval costs to find it, and many have the same."""
    return float(stats.t.ppf(quantile, degrees))


def finite_sample(values: Sequence[float], *, of: str) -> np.ndarray:
    """`values` as float64; UsageError where there are none or one is not finite.

    >>> finite_sample([1, 2], of="the mean")
    array([1., 2.])
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not len(sample):
        raise UsageError(f"{of} of no values", hint="give at least one run")
    if not np.isfinite(sample).all():
        raise UsageError(f"{of} of values that are not all finite", hint="cut them at the budget, or leave them out")
    return sample


def checked_confidence(confidence: float) -> float:
    """`confidence` itself; UsageError unless it lies strictly between 0 and 1.

    >>> checked_confidence(0.95)
    0.95
    """
    if not 0 < confidence < 1:
        raise UsageError("a confidence lies between 0 and 1", hint="0.95 is usual", confidence=confidence)
    return confidence
