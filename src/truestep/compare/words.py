"""Verdicts, ratios and outcomes in words: the same in the terminal and on the page. Pure."""

from __future__ import annotations

from truestep.compare.against import Against, Limits, Margin, Ratio, TimeVerdict
from truestep.compare.standing import Standing
from truestep.pages.words import NOT_MEASURED, counted, percent, ratio_words, significant


def verdict_text(one: Standing, against: Against, limits: Limits) -> str:
    """What may be said of a candidate, in one line; below the seeds that a claim takes, that it may not."""
    if one.again:
        floor = limits.noise_floor
        return "the baseline again: " + ("nothing measured" if floor is None else f"noise floor {ratio_words(floor, times='x')}")
    if not against.pairs:
        return "no seed that both have run"
    if one.demonstrates is not None:
        return _damage(one, against)
    if against.pairs < limits.seeds_needed:
        return f"no claim: {counted(against.pairs, 'seed')}, {limits.seeds_needed} needed"
    parts = [] if one.reached else ["never reached the target"]
    shared = f", timed with {limits.at_once} runs at once" if limits.at_once > 1 else ""
    parts.append(f"{_time(one, against, limits)}{shared}")
    parts.append(f"examples to the target {_margin(against.examples, share=True)}")
    parts.append(f"final quality on the test split {_margin(against.quality, share=False)}")
    return "; ".join(parts)


def outcome_text(one: Standing) -> str:
    """How the runs ended: reached of all, then failures by name.

    >>> from types import SimpleNamespace as Some
    >>> outcome_text(Some(runs=3, reached=1, statuses={"reached": 1, "diverged": 2}))
    '1/3, 2 diverged'
    """
    if not one.runs:
        return "not run"
    rest = [f"{count} {status}" for status, count in one.statuses.items() if status != "reached"]
    return ", ".join([f"{one.reached}/{one.runs}", *rest])


def ratio_text(ratio: Ratio | None, *, spread: bool = True) -> str:
    """A speedup, or the bound that it is, with its interval where `spread` is wanted."""
    if ratio is None:
        return NOT_MEASURED
    interval = None if ratio.interval is None else (ratio.interval.low, ratio.interval.high)
    return ratio_words(ratio.speedup, bound=ratio.bound, interval=interval, spread=spread, times="x")


def p_text(ratio: Ratio | None) -> str:
    """The p-value that the verdict uses; the plain one where no claim is made."""
    if ratio is None:
        return NOT_MEASURED
    return significant(ratio.p if ratio.p_adjusted is None else ratio.p_adjusted)


def _damage(one: Standing, against: Against) -> str:
    """What a mistake has done, without a claim."""
    withheld = against.time is TimeVerdict.WITHHELD
    return "; ".join(
        [
            f"a demonstration, not judged: {one.reached} of {counted(one.runs, 'run')} reached the target",
            f"times faster {'withheld' if withheld else ratio_text(against.ratios['seconds'])}",
            f"fewer examples {ratio_text(against.ratios['examples'])}",
            _quality_lost(against.quality.mean),
        ]
    )


def _quality_lost(mean: float | None) -> str:
    if mean is None:
        return "no final quality"
    return f"mean loss of final quality {significant(mean)}" if mean else "no difference in mean final quality"


def _time(one: Standing, against: Against, limits: Limits) -> str:
    ratio = against.ratios["seconds"]
    if against.time is TimeVerdict.WITHHELD:
        sides = [one.candidate] * one.emulated + ["the baseline"] * limits.baseline_emulated
        return f"time withheld: {' and '.join(sides)} {'is' if len(sides) == 1 else 'are'} emulated on this device"
    if ratio is None:
        return "time not measured"
    if against.time in (TimeVerdict.FASTER, TimeVerdict.SLOWER):
        return f"{against.time.value}: {ratio_text(ratio)}, p = {p_text(ratio)}"
    return f"{against.time.value} in time"


def _margin(margin: Margin, *, share: bool) -> str:
    if margin.upper is None or margin.why is not None:
        return f"{margin.decision} ({margin.why or 'one pair'})"
    if margin.mean == margin.upper == 0:
        return f"{margin.decision} (no difference on any seed)"
    upper, limit = (percent(value) if share else f"{value:.3g}" for value in (margin.upper, margin.margin))
    return f"{margin.decision} (loss below {upper}, margin {limit})"
