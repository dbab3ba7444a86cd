"""Times to a target that some runs never reach: restricted mean, expected time with restarts, median.

A run that failed is an event, not a run that left the study. The Kaplan-Meier estimate would take it out and so reward
a candidate for crashing early: times 10, 12, 11, 15 and a crash at 3 under a budget of 20 give 12.0 with the crash as
censored, against an honest 13.6.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from truestep.errors import UsageError
from truestep.stats.interval import Interval, mean_interval


@dataclass(frozen=True, kw_only=True)
class RestrictedMean:
    """The mean of min(T, tau) over n runs, in the unit of T, and Student's interval around it."""

    mean: float
    interval: Interval | None
    """None for one run, and where no run reached the target: tau is then all that was observed."""
    tau: float
    """The budget at which T was cut."""
    runs: int


def restricted_mean(times: Sequence[float], *, tau: float, confidence: float = 0.95) -> RestrictedMean:
    """The time that a run takes on average when every run is stopped at tau: mean(min(T, tau)), in the unit of T.

    Args:
        times: T of n >= 1 runs; infinity for a run that never reached the target, for whatever reason.
        tau: the budget, finite and above 0.
        confidence: of the interval, two-sided.

    Raises:
        UsageError: no times, one that is negative or NaN, or a tau that is no budget.

    Assumes independent runs and, for the interval, a mean that is close to normal: with one failure among a few runs it
    is rough, and so it is wide.

    >>> result = restricted_mean([10, 12, math.inf, 11, 15], tau=20)
    >>> result.mean, round(result.interval.low, 2), round(result.interval.high, 2)
    (13.6, 8.59, 18.61)
    >>> restricted_mean([math.inf, math.inf], tau=20)
    RestrictedMean(mean=20.0, interval=None, tau=20, runs=2)
    """
    cut = cut_at(times, tau)
    reached = any(time <= tau for time in times)
    interval = mean_interval(cut, confidence=confidence) if reached else None
    return RestrictedMean(mean=statistics.fmean(cut), interval=interval, tau=tau, runs=len(cut))


def expected_time_with_restarts(times: Sequence[float], *, tau: float) -> float:
    """The time until one run has reached the target if each failed run is followed by another: Σ min(T, tau) / k.

    Infinite where none of the runs reached it (k = 0). Arguments and errors as for `restricted_mean`.

    Assumes that restarts are independent, and as likely to reach the target as the runs seen.

    Source: Hansen et al., COCO: a platform for comparing continuous optimizers, Optimization Methods and Software 36
    (2021), there called ERT.

    >>> expected_time_with_restarts([10, 12, math.inf, 11, 15], tau=20)
    17.0
    >>> expected_time_with_restarts([math.inf], tau=20)
    inf
    """
    cut = cut_at(times, tau)
    reached = sum(time <= tau for time in times)
    return math.fsum(cut) / reached if reached else math.inf


def median_time(times: Sequence[float]) -> float:
    """The median of T, with infinity kept: infinite as soon as a middle run never reached the target.

    Raises:
        UsageError: no times, or one that is negative or NaN.

    Source: the rule of AlgoPerf (Dahl et al., Benchmarking neural network training algorithms, 2023).

    >>> median_time([10, 12, math.inf, 11, 15])
    12.0
    >>> median_time([10, math.inf])
    inf
    """
    return float(statistics.median(_checked(times)))


def cut_at(times: Sequence[float], tau: float) -> list[float]:
    """min(T, tau) for each T; UsageError where there is none, or where a T or tau is no time.

    >>> cut_at([10, math.inf], 20)
    [10.0, 20.0]
    """
    if not (math.isfinite(tau) and tau > 0):
        raise UsageError("a budget is finite and above 0", hint="give tau in the unit of the times", tau=tau)
    return [float(min(time, tau)) for time in _checked(times)]


def _checked(times: Sequence[float]) -> Sequence[float]:
    if not times:
        raise UsageError("a time to target of no runs", hint="give at least one run")
    for time in times:
        if not time >= 0:
            raise UsageError("a time is 0 or more", hint="infinity stands for never reached", time=time)
    return times
