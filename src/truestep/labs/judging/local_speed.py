"""Steps per second is a local speed: it is reported as that, and is never the verdict."""

from __future__ import annotations

from truestep.compare import summarize
from truestep.compare.verdict import Row
from truestep.labs.asking.ask import Choice, Number, Open, Option, Tempting
from truestep.labs.judging._records import BATCH, SEEDS, protocol, race, record, slower
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong
from truestep.pages.words import percent

STEP, SPEED = 0.01, 1.4
"""Seconds of a float32 update, and how many times as fast a float16 one is."""
RACES = {"1500 updates": 1500, "as many updates: 1000": 1000}
SIDE_BY_SIDE = "speed and verdict, side by side, of constructed records"
ROUNDING = 64 * 2.0**-53
"""Sums, logarithms and quotients of a dozen numbers in float64."""


def shows() -> Shown:
    """One speed with two numbers of updates to the target."""
    races = {name: compared(updates) for name, updates in RACES.items()}
    slow, even = races.values()
    baseline_speed = BATCH * len(SEEDS) / (STEP * sum(map(slower, SEEDS)))
    checks = (
        Check(
            what="float32, examples a second",
            expected=baseline_speed,
            measured=_speed(slow[0]),
            within=baseline_speed * ROUNDING,
            because="64 examples an update, 10 ms each on the first seed, all runs together; float64 roundings",
        ),
        Check(
            what="float16's speed over float32's",
            expected=SPEED,
            measured=_speed(slow[1]) / _speed(slow[0]),
            within=SPEED * ROUNDING,
            because="an update takes 10 / 1.4 ms",
        ),
        Check(
            what="verdict at 1500 updates against 1000",
            expected="slower",
            measured=_verdict(slow[1]),
            because="1.4 / 1.5 = 0.93 of the time to the target, on all six seeds",
        ),
    )
    rows = tuple((name, _speed(pair[1]) / _speed(pair[0]), _ratio(pair[1]), _verdict(pair[1])) for name, pair in races.items())
    columns = ("fp16 needs", "speed, times fp32's", "time to target, times as fast", "verdict")
    return Shown(
        checks=checks,
        wrong=(_ranked(slow), _seen()),
        edges=(_equal(even),),
        tables=(Table(title=SIDE_BY_SIDE, columns=columns, rows=rows),),
    )


def compared(updates: int) -> tuple[Row, Row]:
    """The baseline's line of a comparison and the candidate's, which needs so many updates to the target."""
    asked = protocol()
    records = race(asked, updates={"fp32": 1000, "fp16": updates}, step_seconds={"fp32": STEP, "fp16": STEP / SPEED})
    baseline, candidate = summarize(asked, records).rows
    return baseline, candidate


def _speed(row: Row) -> float:
    assert row.standing.examples_per_second is not None
    return row.standing.examples_per_second


def _verdict(row: Row) -> str:
    assert row.against is not None
    return row.against.time.value


def _ratio(row: Row) -> float:
    assert row.against is not None
    ratio = row.against.ratios["seconds"]
    assert ratio is not None
    return ratio.speedup


def _ranked(pair: tuple[Row, Row]) -> Wrong:
    baseline, candidate = pair
    first = {True: "fp16", False: "fp32"}
    check = Check(
        what="first by speed, first by time to the target",
        expected=("fp16", "fp32"),
        measured=(first[_speed(candidate) > _speed(baseline)], first[_ratio(candidate) > 1]),
        because="1.4 times the examples a second, and 1.5 times as many examples until it is there",
    )
    return Wrong(
        how="rank by examples a second",
        check=check,
        damage=f"it puts first what takes {percent(1 / _ratio(candidate) - 1, 2)} longer to the target",
    )


def _seen() -> Wrong:
    """A fifth of the attempts is skipped; counting what was read hides it."""
    asked = protocol(candidates=("fp16",))
    records = [record(asked, "fp16", seed, updates=800, skipped=200, seconds=10.0) for seed in SEEDS]
    (row,) = summarize(asked, records).rows
    read = sum(each["counts"]["examples_seen"] for each in records) / sum(each["clocks"]["train"] for each in records)
    check = Check(
        what="examples read a second over applied, 200 of 1000 attempts skipped",
        expected=1000 / 800,
        measured=read / _speed(row),
        within=ROUNDING,
        because="1000 windows were read, and 800 applied in the same seconds",
    )
    return Wrong(
        how="take the speed from examples read",
        check=check,
        damage=f"{read:.0f} a second, as if nothing were skipped; {_speed(row):.0f} were learnt from",
    )


def _equal(pair: tuple[Row, Row]) -> Edge:
    return Edge(
        where="both need equally many updates, and none fails: then the local speed is the time to the target",
        check=Check(
            what="time ratio where both need 1000 updates",
            expected=SPEED,
            measured=_ratio(pair[1]),
            within=SPEED * ROUNDING,
            because="the numbers of updates cancel",
        ),
    )


LAB = Lab(
    name="local-speed",
    facts=("E4",),
    topic="judging",
    title="Steps per second",
    claim="Steps per second tells how fast this machine makes an update now. It is reported as that, and is never the verdict "
    "on a precision.",
    source="Coleman et al. 2019, Analysis of DAWNBench, who judge by time to accuracy",
    condition="the seconds here are constructed: they show how a comparison judges, and measure no machine.",
    shows=shows,
    after=(
        After(lab="time-to-target", why="it shows what decides instead"),
        After(lab="skip-rate", why="it shows a throughput that hides what was skipped"),
        After(lab="memory", why="what a narrow format saves there is room, not time; a speed has to be measured by itself"),
    ),
    asks=(
        Choice(
            key="rank",
            prompt="Float16 applies 1.4 times the examples a second and needs 1.5 times as many. What is the verdict on time?",
            answer=lambda shown: shown.measured("verdict at 1500 updates against 1000"),
            options=(
                Option(text="slower", value="slower", why="1.4 / 1.5 = 0.93: it arrives later."),
                Option(text="faster", value="faster", why="Tempting: every progress bar says so. It counts steps, not progress."),
                Option(
                    text="no claim",
                    value="no claim",
                    why="Six seeds agree, which is what a claim at 5 % takes.",
                ),
            ),
        ),
        Number(
            key="needed",
            prompt="Float16's updates are 1.4 times as fast. Float32 needs 1000. How many may float16 need before it is slower?",
            answer=lambda shown: 1000 * shown.measured("float16's speed over float32's"),
            within=0.001,
            why="1000 x 1.4 = 1400: as many take as long.",
            tempting=(
                Tempting(value=lambda _: 1000.0, why="Then it is 1.4 times as fast to the target; there is room for more."),
                Tempting(value=lambda _: 1500.0, why="There it is already slower, by 7 %."),
            ),
        ),
        Open(
            key="report",
            prompt="You report steps per second beside a verdict. What do you write with it, so that nobody reads it as one?",
            rubric=(
                "Of what: updates or examples applied, not read",
                "Where and when: machine, versions, what ran beside",
                "Whether the format is emulated on that machine",
                "The time to the target beside it, or that it was not measured",
            ),
            strong="Examples applied per second on this machine, with its versions and what else ran, and beside it the time "
            "to the target. Where the format is emulated, that its seconds say nothing.",
            weak="Three digits after the point.",
        ),
    ),
)
