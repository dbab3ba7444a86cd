"""The table of results: a row per candidate, the baseline first, every number the summary's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from truestep.pages.comparison.headline import ENDED, tags
from truestep.pages.comparison.reading import Comparison
from truestep.pages.look.table import Cell, Table
from truestep.pages.words import NEITHER, NOT_MEASURED, between, count, percent, ratio_words, seconds, significant

Standing = Mapping[str, Any]
Words = Callable[[float], str]


def results(comparison: Comparison) -> Table:
    """The summary's candidates as a table."""
    columns = (
        "candidate",
        "runs at the target",
        "seconds to it",
        "examples to it",
        "speedup in seconds",
        "speedup in examples",
        f"final {comparison.protocol['quality']}, test split",
        "skipped, and throughput",
    )
    caption = (
        "To the target: the restricted mean, that is the mean of min(T, budget) with T infinite for a run that never "
        "reached it; below it the 95 % interval, the expected time with restarts, and the median. Rate: the share of all such "
        "runs that would reach it, 95 %. Speedup: what "
        f"{comparison.baseline} took divided by what the candidate took, the geometric mean over the seeds; above 1 is less. "
        f"Final {comparison.protocol['quality']}: {_final(comparison.protocol)} Below it the examples applied, a run's mean."
    )
    return Table(caption=caption, columns=columns, rows=tuple(map(_row, comparison.summary["candidates"])))


def _final(protocol: Mapping[str, Any]) -> str:
    """Of which weights the final quality is."""
    if protocol["stop_at_target"]:
        return "that of the weights at the target or, without it, at the end of the run: trainings of unequal length."
    return "that of the weights at the end of the run, which goes on after the target."


def _row(one: Standing) -> tuple[Cell, ...]:
    return (
        Cell(words=one["candidate"], below=tuple(Cell(words=tag) for tag in tags(dict(one)))),
        reach_cell(one),
        estimate_cell(one["estimates"]["seconds"], seconds),
        estimate_cell(one["estimates"]["examples"], lambda value: count(round(value))),
        _speedup(one, "seconds"),
        _speedup(one, "examples"),
        quality_cell(one),
        skips_cell(one),
    )


def reach_cell(one: Standing) -> Cell:
    """How many runs reached the target; below it how the others ended, and the rate's interval."""
    if one["reach"] is None:
        return Cell(words="not run")
    low, high = one["reach"]["low"], one["reach"]["high"]
    failures = [
        Cell(words=f"{runs} {ENDED.get(status, status)}", value=runs)
        for status, runs in one["statuses"].items()
        if status != "reached"
    ]
    rate = Cell(words=f"rate {between(percent(low), percent(high))}")
    return Cell(words=f"{one['reached']} of {one['runs']}", value=one["reached"], below=(*failures, rate))


def estimate_cell(estimate: Mapping[str, Any] | None, words: Words) -> Cell:
    """The restricted mean by one clock; below it interval, expected time with restarts and median."""
    if estimate is None:
        return Cell(words=NOT_MEASURED)
    absent = f"no interval: {'none arrived' if estimate['ert'] is None else 'one run'}"
    below = [_between(estimate["interval"], words, absent=absent)]
    for name, key, absent in (("restarts", "ert", "never"), ("median", "median", "not reached")):
        value = estimate[key]
        below.append(Cell(words=f"{name}: {absent if value is None else words(value)}", value=value))
    mean = estimate["restricted_mean"]
    return Cell(words=words(mean), value=mean, below=tuple(below))


def _between(interval: Mapping[str, float] | None, words: Words, *, absent: str = "no interval") -> Cell:
    return Cell(words=absent if interval is None else between(words(interval["low"]), words(interval["high"])))


def _speedup(one: Standing, clock: str) -> Cell:
    """By one clock, with interval and p-value: the one that Holm adjusted, where a claim is made. Updates with examples."""
    if one["against"] is None:
        return Cell(words="baseline")
    ratio, updates = one["against"]["ratios"][clock], one["against"]["ratios"]["completed"]
    if ratio is None:
        return Cell(words=NOT_MEASURED)
    below = [_between(ratio["interval"], significant), _p(one, ratio, clock)]
    if clock == "examples" and updates is not None:
        of_updates = _times(updates)
        below.append(replace(of_updates, words=f"updates: {of_updates.words}"))
    return replace(_times(ratio), below=tuple(below))


def _p(one: Standing, ratio: Mapping[str, Any], clock: str) -> Cell:
    """No p-value stands beside seconds that say nothing."""
    if clock == "seconds" and one["against"]["time"] == "withheld":
        return Cell(words="p withheld")
    p = ratio["p"] if ratio["p_adjusted"] is None else ratio["p_adjusted"]
    return Cell(words=f"p = {significant(p)}", value=p)


def _times(ratio: Mapping[str, Any]) -> Cell:
    """The ratio without its interval; a cell of words where neither side reached the target, and there is none."""
    interval = ratio["interval"] and (ratio["interval"]["low"], ratio["interval"]["high"])
    words = ratio_words(ratio["speedup"], bound=ratio["bound"], interval=interval, spread=False)
    return Cell(words=words, value=None if words == NEITHER else ratio["speedup"])


def quality_cell(one: Standing) -> Cell:
    """The mean final quality on the test split, with its interval and what it took: a mean over the runs too."""
    if one["quality"] is None:
        return Cell(words=NOT_MEASURED)
    below = [_between(one["quality_interval"], lambda value: significant(value, 4))]
    if one["quality_runs"] < one["runs"]:
        below.append(Cell(words=f"over {one['quality_runs']} of {one['runs']} runs", value=one["quality_runs"]))
    else:
        below.append(Cell(words=f"after {count(round(one['examples_applied'] / one['runs']))} examples"))
    return Cell(words=significant(one["quality"], 4), value=one["quality"], below=tuple(below))


def skips_cell(one: Standing) -> Cell:
    """The skip rate and the throughput, never one without the other."""
    rate, throughput = one["skip_rate"], one["examples_per_second"]
    speed = NOT_MEASURED if throughput is None else f"{significant(throughput)} examples/s"
    of = Cell(words=f"{count(one['skipped'])} of {count(one['attempts'])} attempts", value=one["skipped"])
    return Cell(words=percent(rate), value=rate, below=(of, Cell(words=speed, value=throughput)))
