"""One candidate against the baseline, paired by seed: ratios, margins, and what may be said of them. Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from truestep.compare.protocol import Protocol
from truestep.compare.standing import CLOCKS, Record, final_quality, times
from truestep.stats import Bound, Interval, PairedRatio, noninferiority, paired_log_ratio, sign_flip
from truestep.stats.decision import Decision


class TimeVerdict(StrEnum):
    """What may be said about the time to the target."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference shown"
    NOISE = "within the noise floor"
    CUT = "undecided: times cut at the budget"
    NO_CLAIM = "no claim"
    WITHHELD = "withheld"


@dataclass(frozen=True, kw_only=True)
class SeedRatio:
    """The ratio on one seed."""

    seed: int
    speedup: float
    """exp(-d), d the logarithm of the candidate's time over the baseline's, both cut at the budget."""
    bound: Bound | None
    """None where both runs reached the target."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times less of a clock the candidate needs than the baseline; above 1 is less."""

    speedup: float
    interval: Interval | None
    bound: Bound | None
    """None where every run reached the target; otherwise the ratio is a bound, of this kind."""
    seeds: tuple[SeedRatio, ...]
    """Of each pair, in the order of the seeds."""
    p: float
    """Two-sided, by flipping signs."""
    p_adjusted: float | None
    """After Holm over the candidates; None for a ratio that takes no part in a claim."""


@dataclass(frozen=True, kw_only=True)
class Margin:
    """A loss against its declared margin, both as shares (examples to the target) or in the quality's unit."""

    decision: Decision
    mean: float | None
    """The mean loss; None without a pair."""
    upper: float | None
    """Its one-sided 95 % upper bound; None below two pairs."""
    margin: float
    pairs: int
    why: str | None
    """What keeps it from being decided, where that is not the spread alone."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What bounds the claims of a whole comparison."""

    runs: int
    """Runs with a record."""
    planned: int
    """Runs that the protocol asks for."""
    seeds_needed: int
    """Pairs below which nothing is claimed."""
    noise_floor: float | None
    """The ratio of seconds that the baseline lay from itself, 1 or more; None where it did not run again."""
    at_once: int = 1
    """Runs that shared the machine."""
    baseline_emulated: bool = False
    """Whether the baseline's seconds say nothing about a device that has its format: then no time is judged."""


@dataclass(frozen=True, kw_only=True)
class Against:
    """A candidate held against the baseline."""

    pairs: int
    ratios: Mapping[str, Ratio | None]
    """Clock -> ratio; None without a pair, and where a time was 0 or no budget bounds it."""
    examples: Margin
    quality: Margin
    time: TimeVerdict
    text: str
    """The verdict in words, for a line of a table."""


def pairs(candidate: Sequence[Record], baseline: Sequence[Record]) -> list[tuple[Record, Record]]:
    """The records of both that share a seed, the candidate's first, in the baseline's order."""
    by_seed = {record["seed"]: record for record in candidate}
    return [(by_seed[record["seed"]], record) for record in baseline if record["seed"] in by_seed]


def ratio(paired: Sequence[tuple[Record, Record]], clock: str, *, tau: float | None) -> PairedRatio | None:
    """The paired ratio by `clock`; None without a pair, where a time was 0, or where no budget bounds the times."""
    ours, theirs = (times([pair[side] for pair in paired], clock) for side in (0, 1))
    if not paired or tau is None or 0 in (*ours, *theirs):
        return None
    return paired_log_ratio(ours, theirs, tau=tau)


def ratios(paired: Sequence[tuple[Record, Record]], tau: Mapping[str, float | None]) -> dict[str, Ratio | None]:
    """The ratio by every clock, not yet adjusted for other candidates."""
    found = {clock: ratio(paired, clock, tau=tau[clock]) for clock in CLOCKS}
    return {
        clock: None
        if one is None
        else Ratio(
            speedup=one.speedup,
            interval=one.interval,
            bound=one.bound,
            seeds=_by_seed(paired, one),
            p=sign_flip(one.log_ratios),
            p_adjusted=None,
        )
        for clock, one in found.items()
    }


def _by_seed(paired: Sequence[tuple[Record, Record]], one: PairedRatio) -> tuple[SeedRatio, ...]:
    by_pair = zip(paired, one.log_ratios, one.bounds, strict=True)
    found = (SeedRatio(seed=ours["seed"], speedup=math.exp(-d), bound=bound) for (ours, _), d, bound in by_pair)
    return tuple(sorted(found, key=lambda ratio: ratio.seed))


def examples_margin(paired: Sequence[tuple[Record, Record]], *, protocol: Protocol, tau: float | None) -> Margin:
    """The additional examples to the target as a share of the baseline's, against the declared margin.

    The test is on logarithms, with log(1 + margin). A run cut at the budget hides how far it was from the target, so a
    cut candidate is never non-inferior and a cut baseline never makes it inferior.
    """
    one = ratio(paired, "examples", tau=tau)
    if one is None or tau is None:
        why = "reached before the first update" if paired else "no pair"
        return _no_margin(protocol.margin_examples, pairs=len(paired), why=why)
    result = noninferiority(one.log_ratios, margin=math.log1p(protocol.margin_examples))
    hidden = {
        "non-inferior": one.bound in (Bound.AT_MOST, Bound.UNDIRECTED),
        "inferior": one.bound in (Bound.AT_LEAST, Bound.UNDIRECTED),
        "undecided": False,
    }[result.decision]
    return Margin(
        decision="undecided" if hidden else result.decision,
        mean=math.expm1(told(result.mean, [math.log(tau)])),
        upper=None if result.upper is None else math.expm1(result.upper),
        margin=protocol.margin_examples,
        pairs=len(paired),
        why="runs that never reached the target hide how far they were" if hidden else None,
    )


def quality_margin(paired: Sequence[tuple[Record, Record]], *, protocol: Protocol) -> Margin:
    """The loss of final quality on the test split against the declared margin; undecided where a run has none."""
    sign, margin = 1 if protocol.direction == "higher" else -1, protocol.margin_quality
    assert margin is not None, "a pilot judges nothing"
    qualities = [(final_quality(ours), final_quality(theirs)) for ours, theirs in paired]
    both = [(ours, theirs) for ours, theirs in qualities if ours is not None and theirs is not None]
    if not both:
        return _no_margin(margin, pairs=0, why="no pair of runs has a final quality")
    losses = [sign * told(theirs - ours, (ours, theirs)) for ours, theirs in both]
    result = noninferiority(losses, margin=margin)
    missing = len(paired) - len(losses)
    return Margin(
        decision="undecided" if missing else result.decision,
        mean=told(result.mean, (quality for pair in both for quality in pair)),
        upper=result.upper,
        margin=margin,
        pairs=len(losses),
        why=f"{missing} of {len(paired)} pairs have no final quality" if missing else None,
    )


def told(difference: float, terms: Iterable[float]) -> float:
    """`difference`, the mean of differences between pairs of `terms`; 0 where roundings alone could have made it.

    Each term is rounded once, and so is the difference of two: at most half an eps of each of the two and of twice the largest
    term, two eps of the largest in all, which averaging does not raise.

    >>> told(0.3 - 3 * 0.1, [0.3, 3 * 0.1]), told(0.98 - 0.97, [0.98, 0.97])
    (0.0, 0.010000000000000009)
    """
    return 0.0 if abs(difference) <= 2 * sys.float_info.epsilon * max(map(abs, terms)) else difference


def time_verdict(one: Ratio | None, *, pairs: int, needed: int, alpha: float, emulated: bool, floor: float | None) -> TimeVerdict:
    """What may be said about the seconds, the strongest reason for silence first.

    `emulated` is whether one of the two sides is; `floor` is the ratio that two equal candidates lay apart, 1 or more; None
    where that was not measured.
    """
    if emulated:
        return TimeVerdict.WITHHELD
    if pairs < needed or one is None or one.p_adjusted is None:
        return TimeVerdict.NO_CLAIM
    if one.p_adjusted > alpha or one.speedup == 1:
        return TimeVerdict.SAME
    faster = one.speedup > 1
    if one.bound is Bound.UNDIRECTED or one.bound is (Bound.AT_MOST if faster else Bound.AT_LEAST):
        return TimeVerdict.CUT
    if floor is not None and max(one.speedup, 1 / one.speedup) <= floor:
        return TimeVerdict.NOISE
    return TimeVerdict.FASTER if faster else TimeVerdict.SLOWER


def _no_margin(margin: float, *, pairs: int, why: str) -> Margin:
    return Margin(decision="undecided", mean=None, upper=None, margin=margin, pairs=pairs, why=why)
