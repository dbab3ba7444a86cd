"""A summary as the rows of the terminal's three tables, in words, none wider than a terminal need be. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from truestep.compare.against import TimeVerdict
from truestep.compare.protocol import Protocol
from truestep.compare.standing import Estimate, Standing
from truestep.compare.verdict import Row
from truestep.compare.words import outcome_text, p_text, ratio_text
from truestep.pages.words import NOT_MEASURED, between, counted, mebibytes, percent
from truestep.run.faults import CONTROL, LABEL

TO_TARGET = ("candidate", "reached", "rate, 95 %", "restricted mean, 95 %", "ERT", "median", "updates")
"""Times are seconds of training; ERT is the expected time with restarts; updates are the median of completed ones."""

ON_THE_WAY = ("candidate", "attempts", "completed", "skipped", "examples/s applied", "quality on test, 95 %")

FOOTERS = (
    "Restricted mean: of min(T, budget), T the seconds of training to the target. ERT: expected seconds until one run reaches "
    "it, each failed run followed by another. Rate: the share of all such runs that reach it.",
    "The target is a quality on the validation split; the quality on test is that of the final weights. Times faster, fewer: the "
    "baseline's divided by the candidate's, the geometric mean over the seeds.",
)
"""What the columns are, for whoever does not know."""

AGAINST = ("candidate", "times faster, 95 %", "p", "fewer updates", "fewer examples, 95 %", "p")


def title(protocol: Protocol) -> str:
    """What is raced to, on how many seeds and where."""
    least = "at least" if protocol.direction == "higher" else "at most"
    seeds = counted(len(protocol.seeds), "seed")
    return f"{protocol.task}: {protocol.quality} of {least} {protocol.target:g}, {seeds}, {protocol.device}"


def to_target_row(one: Standing) -> list[str]:
    """A candidate's cells under `TO_TARGET`; absence in words."""
    seconds, completed = one.estimates["seconds"], one.estimates["completed"]
    return [
        name(one),
        outcome_text(one),
        "not run" if one.reach is None else between(percent(one.reach.low, 2), percent(one.reach.high, 2)),
        _mean(seconds, runs=one.runs),
        _time(None if seconds is None else seconds.ert),
        _time(None if seconds is None else seconds.median),
        "not reached" if completed is None or completed.median is None else f"{completed.median:g}",
    ]


def on_the_way(standings: Sequence[Standing]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Columns and a row for each candidate; a column of memory on the device only where a run has told it."""
    rows = [_on_the_way_row(one) for one in standings]
    if all(one.peak_device_bytes is None for one in standings):
        return ON_THE_WAY, rows
    peaks = (NOT_MEASURED if one.peak_device_bytes is None else mebibytes(one.peak_device_bytes) for one in standings)
    return (*ON_THE_WAY, "peak memory on the device"), [[*row, peak] for row, peak in zip(rows, peaks, strict=True)]


def _on_the_way_row(one: Standing) -> list[str]:
    """The skip rate and the throughput, never one without the other."""
    quality = NOT_MEASURED if one.quality is None else f"{one.quality:.4g}"
    if one.quality_interval is not None:
        quality += f" ({between(f'{one.quality_interval.low:.4g}', f'{one.quality_interval.high:.4g}')})"
    return [
        name(one),
        str(one.attempts),
        str(one.completed),
        "no attempt" if one.skip_rate is None else f"{one.skipped} ({percent(one.skip_rate)})",
        NOT_MEASURED if one.examples_per_second is None else f"{one.examples_per_second:,.0f}",
        quality,
    ]


def against_row(row: Row) -> list[str]:
    """The cells under `AGAINST` of a candidate that is not the baseline."""
    assert row.against is not None
    ratios = row.against.ratios
    return [
        name(row.standing),
        ratio_text(ratios["seconds"]),
        "withheld" if row.against.time is TimeVerdict.WITHHELD else p_text(ratios["seconds"]),
        ratio_text(ratios["completed"], spread=False),  # its interval is as a rule the examples' again
        ratio_text(ratios["examples"]),
        p_text(ratios["examples"]),
    ]


def name(one: Standing) -> str:
    """The candidate, labelled where it is wrong on purpose, and where its seconds say nothing of a device with the format."""
    labels = [LABEL] * (one.demonstrates is not None) + [CONTROL] * one.control + ["emulated"] * one.emulated
    return f"{one.candidate} ({', '.join(labels)})" if labels else one.candidate


def _mean(estimate: Estimate | None, *, runs: int) -> str:
    if estimate is None:
        return NOT_MEASURED
    mean = f"{estimate.restricted_mean:.3g} s"
    if estimate.interval is not None:
        return f"{mean} ({between(f'{estimate.interval.low:.3g}', f'{estimate.interval.high:.3g}')})"
    return f"{mean} ({'one run' if runs == 1 else 'all at the budget'})"


def _time(seconds: float | None) -> str:
    return "not reached" if seconds is None else f"{seconds:.3g} s"
