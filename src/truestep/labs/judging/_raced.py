"""A constructed race to one target in which the candidate needs more updates: by compare, and by plain arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truestep.compare import summarize
from truestep.compare.death import charged as charged_with
from truestep.compare.verdict import Row
from truestep.labs.judging._records import BUDGET_SECONDS, SEEDS, protocol, race, slower

UPDATES = {"fp32": 1000, "fp16": 1500}
STEP = 0.01
"""Seconds of a float32 update."""
FAILED = (1, 4)
"""The seeds of six on which the candidate diverges, where it does."""


def by_compare(speed: float, failed: Sequence[int] = (), *, crashed_seconds: float = 0.0) -> tuple[Row, Row]:
    """Both lines of a comparison in which one update of the candidate is `speed` times as fast.

    With `crashed_seconds` each of its runs is the second try: the first ended after so many.
    """
    asked = protocol()
    records = race(asked, updates=UPDATES, step_seconds={"fp32": STEP, "fp16": STEP / speed}, failed=failed)
    if crashed_seconds:
        process: dict[str, Any] = {"earlier": []}
        first = {"status": "crashed", "detail": None, "total_seconds": crashed_seconds, "process": process}
        records = [
            each if each["candidate"] == asked.baseline else charged_with(dict(each) | {"process": process}, first)
            for each in records
        ]
    baseline, candidate = summarize(asked, records).rows
    return baseline, candidate


def seconds(speed: float) -> list[float]:
    """The candidate's times to the target by plain arithmetic, seed by seed, had none failed."""
    return [UPDATES["fp16"] * STEP / speed * slower(seed) for seed in SEEDS]


def charged(speed: float) -> list[float]:
    """The same where it failed on two seeds: each failure costs the whole budget."""
    return [BUDGET_SECONDS if seed in FAILED else time for seed, time in zip(SEEDS, seconds(speed), strict=True)]


def speedup(row: Row) -> float:
    assert row.against is not None
    ratio = row.against.ratios["seconds"]
    assert ratio is not None
    return ratio.speedup


def mean_seconds(row: Row) -> float:
    estimate = row.standing.estimates["seconds"]
    assert estimate is not None
    return estimate.restricted_mean


def verdict(row: Row) -> str:
    assert row.against is not None
    return row.against.time.value
