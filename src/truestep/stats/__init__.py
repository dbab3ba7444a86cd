"""Intervals and tests for a handful of runs, each with its formula, its assumption and its source.

Times that were never reached are `math.inf` here, because the mathematics has it; records say None instead.
"""

from truestep.stats.decision import NonInferiority, holm, noninferiority, seeds_needed
from truestep.stats.interval import Interval, mean_interval
from truestep.stats.mlperf import TrimmedReference, trimmed_reference
from truestep.stats.paired import Bound, PairedRatio, paired_log_ratio, sign_flip
from truestep.stats.reach import clopper_pearson
from truestep.stats.times import RestrictedMean, expected_time_with_restarts, median_time, restricted_mean

__all__ = [
    "Bound",
    "Interval",
    "NonInferiority",
    "PairedRatio",
    "RestrictedMean",
    "TrimmedReference",
    "clopper_pearson",
    "expected_time_with_restarts",
    "holm",
    "mean_interval",
    "median_time",
    "noninferiority",
    "paired_log_ratio",
    "restricted_mean",
    "seeds_needed",
    "sign_flip",
    "trimmed_reference",
]
