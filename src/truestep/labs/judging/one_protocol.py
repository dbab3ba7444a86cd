"""Loss trend, gradient norms, skips and final evaluation, under one fixed protocol: each sees what another misses."""

from __future__ import annotations

import math
import statistics

from truestep.compare import summarize
from truestep.compare.protocol import first_difference
from truestep.errors import RecordError
from truestep.labs.asking.ask import Buckets, Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import TORCH_ADDS
from truestep.labs.judging._records import protocol, record
from truestep.labs.judging._training import CANDIDATES, LIMIT, SCALE, UPDATES, Trained, plain
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

MARGIN = 0.02
"""Of the held-out loss, declared before any run."""
FACTOR = 1.5
"""How far the mean gradient norm may lie from the baseline's, up or down."""
NUMBERS, FLAGS = "four numbers of six runs", "what each of them flags"


def shows() -> Shown:
    """Five runs by four numbers each, and what a declared rule makes of them."""
    runs = {name: run() for name, run in CANDIDATES.items()}
    base = runs["fp32"]
    flags = {name: flagged(run, base) for name, run in runs.items()}
    checks = (
        Check(
            what="final evaluation of the baseline",
            expected=plain(),
            measured=base.evaluation,
            because="a loop of torch's own in float32: the same operations in the same order",
        ),
        Check(
            what="runs of six whose loss falls",
            expected=len(runs),
            measured=sum(run.falls for run in runs.values()),
            because="a short step in the right direction, fewer steps and one window all lower the loss that they log",
        ),
        Check(
            what="flagged by norms, clipped while scaled",
            expected=LIMIT / SCALE,
            measured=statistics.fmean(runs["clipped while scaled"].norms),
            within=LIMIT / SCALE * (2.0**-20 + TORCH_ADDS),
            because="scaled by 1024 every gradient is longer than 1, is cut to it, and divided by 1024; sixteen float32 "
            "roundings, and torch adds 1e-6 to a norm that is above 1",
        ),
        Check(
            what="flagged by skips, a NaN in every fourth window",
            expected=UPDATES // 4,
            measured=runs["a NaN in every fourth window"].skipped,
            because="40 / 4",
        ),
        Check(
            what="flagged by the evaluation, one window again and again",
            expected=True,
            measured=runs["one window again and again"].evaluation > base.evaluation + MARGIN,
            because="16 examples with noise in them do not determine eight weights as well as 640 do",
        ),
        Check(
            what="flags of the sound candidates, bf16 and fp16",
            expected=("none", "none"),
            measured=(_words(flags["bf16"]), _words(flags["fp16"])),
            because="8 or 11 bits round by 0.4 % at most, and the rules ask for a factor of 1.5 and a loss of 0.02; nothing is "
            "beyond 65504 at a scale of 1024",
        ),
    )
    rows = tuple(
        (name, run.losses[0], _last(run), statistics.fmean(run.norms), run.skipped, run.evaluation) for name, run in runs.items()
    )
    numbers = Table(
        title=NUMBERS, columns=("run", "first loss", "last five", "mean norm", "skipped of 40", "held-out loss"), rows=rows
    )
    flags_table = Table(
        title=FLAGS, columns=("run", "flagged by"), rows=tuple((name, _words(each)) for name, each in flags.items())
    )
    return Shown(checks=checks, wrong=(_other_protocol(), _trend(runs)), edges=(_lowest(runs),), tables=(numbers, flags_table))


def flagged(run: Trained, base: Trained) -> tuple[str, ...]:
    """Which of the four numbers is outside of what was declared."""
    norms = statistics.fmean(run.norms) / statistics.fmean(base.norms)
    rules = {
        "trend": not run.falls,
        "norms": not 1 / FACTOR <= norms <= FACTOR,
        "skips": run.skipped > 0,
        "evaluation": run.evaluation > base.evaluation + MARGIN,
    }
    return tuple(name for name, broken in rules.items() if broken)


def _words(flags: tuple[str, ...]) -> str:
    return ", ".join(flags) or "none"


def _last(run: Trained) -> float:
    """The mean of the last five losses that are finite."""
    return statistics.fmean([loss for loss in run.losses if math.isfinite(loss)][-5:])


def _other_protocol() -> Wrong:
    """A record of a run with twice the budget, put beside the baseline's."""
    asked, other = protocol(), protocol(budget_attempts=5000)
    records = [
        record(asked, "fp32", 0, updates=1000, seconds=10.0),
        record(other, "fp16", 0, updates=4000, seconds=9.0, quality=0.97),
    ]
    said = "nothing"
    try:
        summarize(asked, records)
    except RecordError as error:
        said = type(error).__name__
    difference = first_difference(asked, other)
    assert difference is not None
    check = Check(
        what="what compare raises, and what differs",
        expected=("RecordError", "budget_attempts"),
        measured=(said, difference[0]),
        because="a record carries the hash of its protocol, in which one number differs",
    )
    return Wrong(
        how="compare runs of different protocols",
        check=check,
        damage="0.97 against 0.95 would be four times the updates, and no word about the precision",
    )


def _trend(runs: dict[str, Trained]) -> Wrong:
    unsound = [run for name, run in runs.items() if name not in ("fp32", "bf16", "fp16")]
    check = Check(
        what="unsound runs of three that the loss trend flags",
        expected=0,
        measured=sum(not run.falls for run in unsound),
        because="all three lower the loss that they log",
    )
    return Wrong(how="look at the loss curve alone", check=check, damage="it lets through all three runs that are not sound")


def _lowest(runs: dict[str, Trained]) -> Edge:
    return Edge(
        where="the lowest training loss is no argument: it belongs to the run that has seen one window",
        check=Check(
            what="run with the lowest last losses",
            expected="one window again and again",
            measured=min(runs, key=lambda name: _last(runs[name])),
            because="it fits the noise of 16 examples too",
        ),
    )


LAB = Lab(
    name="one-protocol",
    facts=("E2",),
    topic="judging",
    title="Four numbers, one protocol",
    claim="Compare the loss trend, gradient norms, skipped updates and the final evaluation, under one fixed protocol.",
    source="Dahl et al. 2023, Benchmarking Neural Network Training Algorithms, fix protocols for comparing trainings; which "
    "four numbers are looked at is this lab's choice",
    shows=shows,
    after=(
        After(lab="not-to-the-bit", why="it shows what a declared criterion is"),
        After(lab="declared-clock", why="the clock is one of the things that are to be the same"),
    ),
    asks=(
        Buckets(
            key="flags",
            prompt="Which of the four numbers flags which run first? (In the order: trend, norms, skips, evaluation.)",
            buckets=("norms", "skips", "evaluation", "none"),
            answer=lambda shown: {name: words.split(", ")[0] for name, words in shown.table(FLAGS).rows if name != "fp32"},
            why={
                "bf16": "all four are within what was declared",
                "fp16": "likewise, at a scale at which nothing overflows",
                "clipped while scaled": "the norm at the optimizer is 1/1024 throughout: the limit of 1, divided by the scale",
                "a NaN in every fourth window": "ten of forty attempts are skipped; its evaluation is worse, but not why",
                "one window again and again": "it fits 16 examples, noise included: only data that it has not seen give it away",
            },
        ),
        Choice(
            key="trend",
            prompt="Of these six runs three are unsound. How many of the three does a falling loss curve give away?",
            answer=lambda shown: shown.measured("unsound runs of three that the loss trend flags"),
            options=(
                Option(text="none", value=0, why="All six fall."),
                Option(text="one", value=1, why="Tempting: the short steps fall slowly. Slowly is still falling."),
                Option(text="all three", value=3, why="A curve shows that something is learnt, not that it is the right thing."),
            ),
        ),
        Number(
            key="skipped",
            prompt="Every fourth of 40 windows holds a NaN. How many updates has that run completed?",
            answer=lambda shown: UPDATES - shown.measured("flagged by skips, a NaN in every fourth window"),
            within=0.0,
            why="40 - 10 = 30. Its evaluation is worse than the baseline's, and the count says why.",
            tempting=(
                Tempting(value=lambda _: float(UPDATES), why="So many were attempted."),
                Tempting(value=lambda _: UPDATES / 4, why="So many were skipped."),
            ),
        ),
        Open(
            key="before",
            prompt="List all that must be decided before the first line of a loop that is to compare two precisions.",
            rubric=(
                "Task, data and splits, and the start: seeds and initial weights",
                "Batch, microbatches, what a loss is averaged over, clip limit and its units",
                "Optimizer, schedule, what a tick means, what the budget counts",
                "Target and evaluation: which data, which precision, how often",
                "Retries, failures, and how many seeds a claim takes",
            ),
            strong="Data and splits, seeds and initial weights; batch, microbatches, denominator, clip in original units; "
            "optimizer, schedule and its clock, budget; target, evaluation in float32; what failures cost; six seeds.",
            weak="The learning rate; the rest can be tuned for each precision.",
        ),
    ),
)
