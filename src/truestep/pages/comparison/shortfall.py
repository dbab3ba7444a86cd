"""Where the runs stood that missed the target, and why their final quality may look harmless: in words, from the records."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from truestep.pages.comparison.clocks import EXAMPLES, Record
from truestep.pages.comparison.reading import Comparison
from truestep.pages.words import between, count, significant


def shortfall(comparison: Comparison, one: Mapping[str, Any]) -> tuple[str, ...]:
    """What a reader needs beside the final quality of `one`, a standing: nothing where all its runs reached the target.

    A sentence is left out where the records do not tell it: no evaluation, a baseline that never arrived, or runs that all went
    on to the end of the budget, whose final qualities are of equal trainings.
    """
    missed = [record for record in _of(comparison, one["candidate"]) if record["to_target"] is None]
    baseline = comparison.summary["candidates"][0]
    if not missed or not baseline["reached"]:
        return ()
    said = [_stood(comparison, missed, baseline)]
    if comparison.protocol["stop_at_target"] and one["quality"] is not None and baseline["quality"] is not None:
        lengths = _lengths(comparison, missed)
        said += [lengths, _splits(comparison, "Nor can it" if lengths else f"No final {comparison.protocol['quality']} can")]
    return tuple(words for words in said if words is not None)


def _stood(comparison: Comparison, missed: Sequence[Record], baseline: Mapping[str, Any]) -> str | None:
    """Validation at the examples that the baseline's middle run took, and the best at any."""
    there = baseline["estimates"]["examples"] and baseline["estimates"]["examples"]["median"]
    courses = [course for record in missed if (course := _course(record))]
    if there is None or not courses:
        return None
    protocol = comparison.protocol
    best = (max if protocol["direction"] == "higher" else min)(quality for course in courses for _, quality in course)
    at = sorted(before[-1] for course in courses if (before := [quality for seen, quality in course if seen <= there]))
    last = max(seen for course in courses for seen, _ in course)
    reach = f"the best on validation up to its last evaluation, after {count(last)} examples, was {significant(best, 4)}"
    if not at:
        return f"{reach[0].upper()}{reach[1:]}."
    stood = between(*(significant(quality, 4) for quality in (at[0], at[-1])))
    return (
        f"At {count(round(there))} examples, where {comparison.baseline} had reached {protocol['quality']} "
        f"{protocol['target']:g} (its median run), its own on validation was {stood}; {reach}."
    )


def _lengths(comparison: Comparison, missed: Sequence[Record]) -> str | None:
    """Final qualities are of runs of unequal length, where those with the target ended at it."""
    theirs = [record for record in _of(comparison, comparison.baseline) if record["to_target"] is not None]
    ours, baseline = (statistics.fmean(EXAMPLES.spent(record) for record in side) for side in (missed, theirs))
    if ours <= baseline:
        return None
    return (
        f"Its final {comparison.protocol['quality']} does not show this: a run ends at the target, so those without it have seen "
        f"{count(round(ours))} examples, those of {comparison.baseline} with it {count(round(baseline))}, on average. Training "
        "for longer can make up for what an update loses; the examples to the target are what to look at."
    )


def _splits(comparison: Comparison, subject: str) -> str | None:
    """That a quality on one split is none on the other: the same weights of the baseline on both, at the target."""
    both = [
        (course[-1][1], float(record["test_quality"]))
        for record in _of(comparison, comparison.baseline)
        if record["to_target"] is not None
        and record["test_quality"] is not None
        and math.isfinite(float(record["test_quality"]))
        and (course := _course(record))
        and record["evaluations"][-1]["completed"] == record["counts"]["completed"]  # of the very weights that were tested
    ]
    if not both:
        return None
    validation, test = (significant(statistics.fmean(side), 4) for side in zip(*both, strict=True))
    if validation == test:
        return None
    return (
        f"{subject} be held against the target, which is on validation: the weights with which {comparison.baseline} reached it "
        f"have {validation} there and {test} on the test split, on average."
    )


def _course(record: Record) -> list[tuple[int, float]]:
    """Examples seen and quality at each evaluation with a finite one."""
    found = ((each["examples"], float(each["quality"])) for each in record["evaluations"])
    return [(seen, quality) for seen, quality in found if math.isfinite(quality)]


def _of(comparison: Comparison, candidate: str) -> list[Record]:
    return [record for record in comparison.records if record["candidate"] == candidate]
