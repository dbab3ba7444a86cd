"""Total time to one declared target decides, retries and failed runs included."""

from __future__ import annotations

import math
import statistics

from truestep.labs.asking.ask import Buckets, Choice, Number, Open, Option, Tempting
from truestep.labs.judging._raced import FAILED, UPDATES, by_compare, charged, mean_seconds, seconds, speedup, verdict
from truestep.labs.judging._records import BUDGET_SECONDS, SEEDS
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

CRASHED_SECONDS = 4.0
"""What a try took whose process crashed, where one did."""
SPEEDS = (1.2, 1.4, 1.6, 2.0)
VERDICTS = "constructed records: verdict by how much faster an update is; 1500 updates to the target where float32 needs 1000"
ROUNDING = 64 * 2.0**-53
"""Sums, logarithms and quotients of a dozen numbers in float64."""


def shows() -> Shown:
    """The race at several speeds of an update; with failures; and where every run is as long."""
    pairs = {speed: by_compare(speed) for speed in SPEEDS}
    raced = {speed: candidate for speed, (_, candidate) in pairs.items()}
    checks = (
        *(
            Check(
                what=f"time ratio where an update is {speed:g} times as fast",
                expected=speed * UPDATES["fp32"] / UPDATES["fp16"],
                measured=speedup(raced[speed]),
                within=2 * ROUNDING,
                because=f"{speed:g} x 1000 / 1500, seed by seed; float64 roundings",
            )
            for speed in (1.4, 2.0)
        ),
        Check(
            what="verdicts at 1.4 and at 2",
            expected=("slower", "faster"),
            measured=(verdict(raced[1.4]), verdict(raced[2.0])),
            because="the ratio is 0.93 at 1.4 and 1.33 at 2, on all six seeds: p = 2/64",
        ),
    )
    rows = tuple(
        (f"{speed:g}", mean_seconds(base), mean_seconds(row), speedup(row), verdict(row)) for speed, (base, row) in pairs.items()
    )
    columns = ("an update is as fast", "fp32, seconds (mean)", "fp16, seconds (mean)", "time ratio", "verdict")
    table = Table(title=VERDICTS, columns=columns, rows=rows)
    return Shown(checks=checks, wrong=(_survivors(), _by_updates()), edges=(_retried(), _even(), _again()), tables=(table,))


def _survivors() -> Wrong:
    """Two of six runs diverge early; the mean of the other four looks fine."""
    _, row = by_compare(2.0, FAILED)
    survivors = statistics.fmean(time for seed, time in zip(SEEDS, seconds(2.0), strict=True) if seed not in FAILED)
    check = Check(
        what="mean time to the target, failed runs charged with the budget",
        expected=statistics.fmean(charged(2.0)),
        measured=mean_seconds(row),
        within=BUDGET_SECONDS * ROUNDING,
        because="four runs by their times, two by the budget of 25 s, though they ended early; float64 roundings",
    )
    return Wrong(
        how="average the runs that reached the target",
        check=check,
        damage=f"it says {survivors:.2f} s, and crashing early looks fast; charged it is {mean_seconds(row):.2f} s, and the "
        f"verdict '{verdict(row)}'",
    )


def _by_updates() -> Wrong:
    _, row = by_compare(2.0)
    assert row.against is not None
    ratio = row.against.ratios["completed"]
    assert ratio is not None
    check = Check(
        what="ratio by completed updates, at a speed of 2",
        expected=UPDATES["fp32"] / UPDATES["fp16"],
        measured=ratio.speedup,
        within=ROUNDING,
        because="1000 / 1500, whatever an update costs",
    )
    return Wrong(
        how="judge by the number of updates alone",
        check=check,
        damage=f"it says 1.5 times as many, so worse; by time to the target it is {speedup(row):.3g} times as fast",
    )


def _retried() -> Edge:
    estimate = by_compare(2.0, FAILED)[1].standing.estimates["seconds"]
    assert estimate is not None
    assert estimate.ert is not None
    return Edge(
        where="failed runs are started again until one arrives: then each success carries its share of the failures",
        check=Check(
            what="expected time with retries",
            expected=math.fsum(charged(2.0)) / (len(SEEDS) - len(FAILED)),
            measured=estimate.ert,
            within=BUDGET_SECONDS * ROUNDING,
            because="all six times over the four that arrived; if a retry is as likely to fail as these were",
        ),
    )


def _again() -> Edge:
    """The process of each run of the candidate crashed once, and the run was made again."""
    _, row = by_compare(2.0, crashed_seconds=CRASHED_SECONDS)
    own = statistics.fmean(seconds(2.0))
    return Edge(
        where="each run of the candidate crashed once and was made again: what the first try took is waste, and counts",
        check=Check(
            what="mean time to the target, the waste in it, and the verdict's ratio below 1",
            expected=(own + CRASHED_SECONDS, len(SEEDS) * CRASHED_SECONDS, 1.0),
            measured=(mean_seconds(row), row.standing.spent["waste"], float(speedup(row) < 1)),
            within=BUDGET_SECONDS * ROUNDING,
            because="4 s more on each of six seeds: about 11.7 s where float32 takes 10.3, though an update is twice as fast",
        ),
    )


def _even() -> Edge:
    _, row = by_compare(1.5)
    return Edge(
        where="an update exactly 1.5 times as fast: the two are even",
        check=Check(
            what="time ratio where an update is 1.5 times as fast",
            expected=1.0,
            measured=speedup(row),
            within=2 * ROUNDING,
            because="1.5 x 1000 / 1500 = 1",
        ),
    )


LAB = Lab(
    name="time-to-target",
    facts=("E3",),
    topic="judging",
    title="Time to one target",
    claim="Float32 reaches the target in 1000 completed updates; a faster update needs 1500. What is compared is the total time "
    "to the same target, declared before, with retries and failed runs included.",
    source="Coleman et al. 2019, Analysis of DAWNBench; Hansen et al. 2021 (COCO) for the expected time with restarts",
    condition="the seconds here are constructed: they show how a comparison judges, and measure no machine.",
    shows=shows,
    after=(
        After(lab="ninety", why="a budget is counted in completed updates, not in attempts"),
        After(lab="one-protocol", why="the target and the baseline come from the protocol"),
    ),
    asks=(
        Number(
            key="ratio",
            prompt="Float32: 1000 updates to the target. Float16: 1500, each 1.4 times as fast. How many times as fast does "
            "float16 reach the target?",
            answer=lambda shown: shown.measured("time ratio where an update is 1.4 times as fast"),
            why="1.4 x 1000 / 1500 = 0.93: it is slower.",
            tempting=(
                Tempting(value=lambda _: 1.4, why="That is the speed of an update. It needs more of them."),
                Tempting(value=lambda _: 1000 / 1500, why="That is the ratio of updates. Each takes less time."),
            ),
        ),
        Buckets(
            key="speeds",
            prompt="1500 updates against 1000. At which speeds of an update is float16 faster to the target?",
            buckets=("faster", "slower"),
            answer=lambda shown: {row[0]: row[4] for row in shown.table(VERDICTS).rows if row[4] in ("faster", "slower")},
            why={
                "1.2": "1.2 / 1.5 = 0.8",
                "1.4": "1.4 / 1.5 = 0.93",
                "1.6": "1.6 / 1.5 = 1.07",
                "2": "2 / 1.5 = 1.33",
            },
        ),
        Choice(
            key="failures",
            prompt="Two of six runs diverge after a tenth of their way. What do they count in the mean time to the target?",
            answer=lambda shown: _charge(shown.measured("mean time to the target, failed runs charged with the budget")),
            options=(
                Option(text="the whole budget", value="budget", why="They have not reached the target within it."),
                Option(
                    text="nothing: they are left out",
                    value="left out",
                    why="Tempting, as they have no time to the target. Left out, they make failing early look like speed.",
                ),
                Option(text="the seconds until they failed", value="spent", why="That is what they cost, not when they arrived."),
            ),
            eliminate=True,
        ),
        Open(
            key="map",
            prompt="Draw the map from formats to time to quality: formats, scaling, accumulation, memory, clocks. Label each "
            "arrow with why the one depends on the other.",
            rubric=(
                "Formats to scaling: a narrow range loses small gradients, so they are scaled",
                "Scaling to clocks: a scale that is too large overflows, attempts are skipped, and ticks part from attempts",
                "Formats and accumulation to memory: smaller activations, and microbatches that fit",
                "Accumulation to scaling: the scale is constant in a window, and the sum is unscaled once",
                "Clocks to time to quality: the budget and schedule count completed updates, and skips cost time",
            ),
            strong="Formats lose small gradients, hence scaling; scales overflow, hence skips, hence clocks that count updates. "
            "Memory asks for microbatches, whose window needs one scale. All of it ends in updates and seconds to one target.",
            weak="Formats make it faster, which is the time to quality.",
        ),
        Open(
            key="interview",
            prompt="Interview: 'Your float16 run does 1.4 times as many steps a second as float32. Is it better?'",
            rubric=(
                "Asks for a target that was declared before either ran",
                "Compares total time to it, not steps a second",
                "Counts failed runs, retries and skipped attempts into that time",
                "Wants several seeds under one protocol, and says how sure the result is",
            ),
            strong="Not by that number. I declare a target and run both under one protocol on several seeds, and compare "
            "the time to the target with failures and retries charged. At 1.4 times the steps it loses if it needs 1.5 times as "
            "many.",
            weak="Yes: 1.4 times the steps are 1.4 times the training.",
            follow_up="When do steps a second and time to quality give the same answer?",
        ),
    ),
)


def _charge(mean: float) -> str:
    """What a mean of six says that the two failures were charged."""
    times = seconds(2.0)
    by = {
        "budget": charged(2.0),
        "left out": [time for seed, time in zip(SEEDS, times, strict=True) if seed not in FAILED],
        "spent": [time / 10 if seed in FAILED else time for seed, time in zip(SEEDS, times, strict=True)],
    }
    return min(by, key=lambda name: abs(statistics.fmean(by[name]) - mean))
