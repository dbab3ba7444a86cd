"""One candidate's runs as numbers: how many reached the target, how long that takes, what was skipped. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from truestep.compare.candidate import Candidate
from truestep.compare.protocol import Protocol
from truestep.ledger.records import decoded
from truestep.run.clocks import DIALS, primary_seconds
from truestep.run.faults import NONE
from truestep.stats import (
    Interval,
    clopper_pearson,
    expected_time_with_restarts,
    mean_interval,
    median_time,
    restricted_mean,
)

Record = Mapping[str, Any]
"""A run's record, as records.jsonl holds it."""

CLOCKS = ("seconds", "completed", "examples")
"""What the way to the target is measured in: seconds of the primary clock, completed updates, examples."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How long a candidate takes to the target by one clock, in that clock's unit."""

    restricted_mean: float
    """mean(min(T, tau))."""
    interval: Interval | None
    """Of the restricted mean; None for one run, and where none reached the target."""
    ert: float | None
    """Expected time with restarts; None where no run reached the target."""
    median: float | None
    """None where a middle run did not reach the target."""
    tau: float


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All runs of one candidate."""

    candidate: str
    baseline: bool
    again: bool
    """Whether this is the baseline a second time."""
    demonstrates: str | None
    """The mistake that its loop makes on purpose; None where it makes none."""
    control: bool
    """Whether its loop is the hand-written one without a mistake, beside which those with one can be held."""
    emulated: bool
    """Whether its seconds say nothing about a device that has the format."""
    runs: int
    reached: int
    reach: Interval | None
    """Of the reach rate; None without a run."""
    statuses: Mapping[str, int]
    """Status -> runs that ended with it."""
    failures: tuple[Mapping[str, Any], ...]
    """Seed, status, detail, hint, best validation quality, attempts and examples seen of each run without the target."""
    estimates: Mapping[str, Estimate | None]
    """Clock -> estimate; None without a run, and for seconds where no time passed."""
    attempts: int
    completed: int
    skipped: int
    skipped_by_reason: Mapping[str, int]
    skip_rate: float | None
    """Skipped attempts over all attempts; None without an attempt."""
    examples_applied: int
    examples_per_second: float | None
    """Examples applied over seconds of the train clock; None where no time passed."""
    spent: Mapping[str, float]
    """Clock -> seconds over all runs."""
    quality: float | None
    """The mean final quality on the test split over the runs that have one; None where none has."""
    quality_interval: Interval | None
    quality_runs: int
    peak_device_bytes: int | None
    """The most memory that a run held on its device; None where no run tells, as on a processor."""
    cpu_share: float | None
    """The least of the runs' process CPU time / (wall time x threads); None where no run tells."""

    @property
    def is_rival(self) -> bool:
        """Whether a claim may be made about it: neither the baseline, nor that again, nor a loop that is wrong on purpose."""
        return not (self.baseline or self.again or self.demonstrates is not None)


def standing(candidate: str, records: Sequence[Record], *, protocol: Protocol, tau: Mapping[str, float | None]) -> Standing:
    """The standing of `candidate` from its `records`, with T cut at `tau`, one value per clock."""
    asked = Candidate.parse(candidate)
    reached = sum(record["to_target"] is not None for record in records)
    attempts, completed = _total(records, "attempts"), _total(records, "completed")
    reasons = sum((Counter(record["counts"]["skipped_by_reason"]) for record in records), Counter[str]())
    spent = {clock: math.fsum(record["clocks"][clock] for record in records) for clock in DIALS}
    qualities = [value for record in records if (value := final_quality(record)) is not None]
    shares = [share for record in records if (share := cpu_share(record, threads=protocol.threads)) is not None]
    on_device = [peak for record in records if (peak := (record.get("process") or {}).get("peak_device_bytes")) is not None]
    applied = _total(records, "examples_applied")
    return Standing(
        candidate=candidate,
        baseline=candidate == protocol.baseline,
        again=asked.again,
        demonstrates=None if asked.demonstrates is None else asked.demonstrates.mistake,
        control=asked.fault == NONE,
        emulated=any(record["emulated"] for record in records),
        runs=len(records),
        reached=reached,
        reach=clopper_pearson(reached, len(records)) if records else None,
        statuses=dict(Counter(record["status"] for record in records)),
        failures=tuple(
            {key: record[key] for key in ("seed", "status", "detail", "hint")}
            | {"best": best_quality(record, protocol.direction)}
            | {key: record["counts"][key] for key in ("attempts", "examples_seen")}
            for record in records
            if record["to_target"] is None
        ),
        estimates={clock: _estimate(times(records, clock), tau=tau[clock]) for clock in CLOCKS},
        attempts=attempts,
        completed=completed,
        skipped=sum(reasons.values()),
        skipped_by_reason=dict(reasons),
        skip_rate=sum(reasons.values()) / attempts if attempts else None,
        examples_applied=applied,
        examples_per_second=applied / spent["train"] if spent["train"] > 0 else None,
        spent=spent,
        quality=statistics.fmean(qualities) if qualities else None,
        quality_interval=mean_interval(qualities) if qualities else None,
        quality_runs=len(qualities),
        peak_device_bytes=max(on_device, default=None),
        cpu_share=min(shares, default=None),
    )


def times(records: Sequence[Record], clock: str) -> list[float]:
    """T of each run by `clock`; infinity where the target was not reached, whatever the reason and however early.

    >>> times([{"to_target": {"completed": 40}}, {"to_target": None}], "completed")
    [40.0, inf]
    """
    return [math.inf if record["to_target"] is None else float(record["to_target"][clock]) for record in records]


def final_quality(record: Record) -> float | None:
    """The run's quality on the test split; None where the run has none or it is not finite."""
    value = decoded(record["test_quality"])
    return value if value is not None and math.isfinite(value) else None


def best_quality(record: Record, direction: str) -> float | None:
    """The best quality on the validation split at any of the run's evaluations; None where none is finite.

    >>> best_quality({"evaluations": [{"quality": 0.5}, {"quality": "nan"}, {"quality": 0.25}]}, "lower")
    0.25
    """
    found = [quality for each in record["evaluations"] if math.isfinite(quality := float(each["quality"]))]
    return (max if direction == "higher" else min)(found, default=None)


def cpu_share(record: Record, *, threads: int) -> float | None:
    """The process's CPU time in the run over its wall time x `threads`; None for a run too short to tell, or that died.

    Of a run that was tried before, both are the last try's.

    >>> cpu_share({"cpu_seconds": 3.0, "total_seconds": 2.0}, threads=2)
    0.75
    >>> cpu_share({"cpu_seconds": 3.0, "total_seconds": 7.0, "process": {"earlier": [{"total_seconds": 5.0}]}}, threads=2)
    0.75
    """
    tried = (record.get("process") or {}).get("earlier", ())
    wall = (record["total_seconds"] - math.fsum(each["total_seconds"] for each in tried)) * threads
    return record["cpu_seconds"] / wall if wall > 0 and record["cpu_seconds"] is not None else None


def budgets(protocol: Protocol, records: Sequence[Record]) -> dict[str, float | None]:
    """tau by clock: the declared budgets; without one in seconds, the longest run of the comparison.

    Completed updates are cut at the budget of attempts, examples at as many full batches. No seconds (None) where
    none are declared and no run spent any.
    """
    longest = max((primary_seconds(record["clocks"]) for record in records), default=0.0)
    return {
        "seconds": (longest or None) if protocol.budget_seconds is None else protocol.budget_seconds,
        "completed": float(protocol.budget_attempts),
        "examples": float(protocol.budget_attempts * protocol.batch),
    }


def _estimate(values: Sequence[float], *, tau: float | None) -> Estimate | None:
    if not values or tau is None:
        return None
    mean = restricted_mean(values, tau=tau)
    return Estimate(
        restricted_mean=mean.mean,
        interval=mean.interval,
        ert=_present(expected_time_with_restarts(values, tau=tau)),
        median=_present(median_time(values)),
        tau=tau,
    )


def _present(time: float) -> float | None:
    return time if math.isfinite(time) else None


def _total(records: Sequence[Record], count: str) -> int:
    return sum(record["counts"][count] for record in records)
