"""A high rate of skips is evidence: beside the throughput it says that something is wrong, and with its reasons, what."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

import truestep
from truestep.labs.asking.ask import Buckets, Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import linear, loss
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong
from truestep.ledger.records import attempt_record, header_record
from truestep.ledger.summary import Summary, summarize
from truestep.pages.words import percent

ATTEMPTS, SKIPPED = 40, 12
"""12 of 40 are skipped, spread evenly: three of each ten."""
LIMIT = 0.05
CLEAN, LARGE = 1.0, 1e38
WRONG_IN: dict[str, float] = {"a NaN in the data": math.nan, "gradients near the end of the range": LARGE}
RUNS = "two runs with one rate"


def shows() -> Shown:
    """Two runs that differ in why 30 % of their attempts are skipped; a healthy start beside them."""
    runs = {name: attempts(value) for name, value in WRONG_IN.items()}
    nans, large = ([one for one in run if not one.completed] for run in runs.values())
    last = runs["a NaN in the data"][-1].counts
    alerts = {name: sounded(run) for name, run in runs.items()}
    checks = (
        Check(
            what="share of attempts skipped",
            expected=SKIPPED / ATTEMPTS,
            measured=last.skipped / last.attempts,
            because="12 of 40",
        ),
        Check(
            what="why, run by run",
            expected=("non-finite input", "backward overflow"),
            measured=tuple(one[0].skip.reason.value for one in (nans, large) if one[0].skip),
            because="the first had NaN in what it read; the second's gradient is finite at a smaller scale",
        ),
        _beside(runs["a NaN in the data"]),
        Check(
            what="times that the alarm sounded, run by run",
            expected=(1, 1),
            measured=tuple(len(each) for each in alerts.values()),
            because="more than 5 % of the last 40; it sounds once, until the rate has fallen again",
        ),
    )
    rows = tuple(
        (name, run[-1].counts.skipped, _only(run), run[-1].next_loss_scale, alerts[name][0].attempt) for name, run in runs.items()
    )
    columns = ("what is wrong", "skipped of 40", "reason", "next loss scale", "alarm at attempt")
    table = Table(title=RUNS, columns=columns, rows=rows)
    return Shown(checks=checks, wrong=(_averaged(last), _patient()), edges=(_calibrating(),), tables=(table,))


def attempts(bad: float) -> list[truestep.Outcome]:
    """40 attempts by the engine, of which three in each ten hold `bad`. The scale starts at 2^40, so that it stays high."""
    model, _ = linear((CLEAN,))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-10)
    update = truestep.Update(model, optimizer, loss=loss, scale=truestep.LossScale.dynamic(2.0**40))
    return [update([_batch(bad if number % 10 in (2, 5, 8) else CLEAN)]) for number in range(ATTEMPTS)]


def sounded(outcomes: Sequence[truestep.Outcome]) -> list[truestep.Alert]:
    """The alerts of an alarm at 5 % of 40 attempts."""
    alarm = truestep.SkipAlarm(limit=LIMIT, attempts=ATTEMPTS)
    return [alert for outcome in outcomes if (alert := alarm(outcome)) is not None]


def _beside(outcomes: Sequence[truestep.Outcome]) -> Check:
    """What a ledger's summary has in the same record as the throughput: as a file of these attempts would add up."""
    header = header_record(run_id="lab", created="", environment={}, policy=None, protocol_hash=None)
    summary: Summary = summarize([header, *(attempt_record(outcome) | {"waste": False} for outcome in outcomes)])
    record = summary.as_dict()
    return Check(
        what="in the ledger's summary beside the throughput: it is there, skip rate, reasons",
        expected=("yes", percent(SKIPPED / ATTEMPTS, 2), f"{SKIPPED} non-finite input"),
        measured=(
            "yes" if record["examples_per_second"] else "no",
            percent(record["skip_rate"], 2),
            ", ".join(f"{skips} {reason}" for reason, skips in record["counts"]["skipped_by_reason"].items()),
        ),
        because="one record holds the three, and `truestep ledger` prints rate and throughput in one line",
    )


def _batch(value: float) -> Tensor:
    return torch.tensor([[value]])


def _only(outcomes: Sequence[truestep.Outcome]) -> str:
    """The one reason of a run's skips."""
    (reason,) = outcomes[-1].counts.skipped_by_reason
    return reason


def _averaged(counts: truestep.Counts) -> Wrong:
    check = Check(
        what="examples seen over examples applied",
        expected=ATTEMPTS / (ATTEMPTS - SKIPPED),
        measured=counts.examples_seen / counts.examples_applied,
        because="40 / 28: one example an attempt, and the seconds are the same for both",
    )
    over = counts.examples_seen / counts.examples_applied - 1
    return Wrong(
        how="print one figure: examples read a second",
        check=check,
        damage=f"{percent(over, 2)} more than were learnt from, and the better the more windows are dropped",
    )


def _patient() -> Wrong:
    """A rate averaged over a long run hides a data source that broke near its end."""
    model, _ = linear((CLEAN,))
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=2.0**-10), loss=loss)
    outcomes = [update([_batch(CLEAN)]) for _ in range(190)] + [update([_batch(math.nan)]) for _ in range(10)]
    counts = outcomes[-1].counts
    alarm = truestep.SkipAlarm(limit=LIMIT, attempts=20)
    first = next(number for number, outcome in enumerate(outcomes, start=1) if alarm(outcome) is not None)
    check = Check(
        what="skips of the whole run as a share, skips in a row at its end",
        expected=(10 / 200, 10.0),
        measured=(counts.skipped / counts.attempts, float(counts.consecutive_skips)),
        because="10 of 200 is 5 %, and all of them are the last ten",
    )
    return Wrong(
        how="average the rate over the whole run",
        check=check,
        damage=f"5 % looks bearable, while nothing has been learnt for ten attempts; an alarm over 20 sounds at attempt {first}",
    )


def _calibrating() -> Edge:
    model, _ = linear((CLEAN,))
    update = truestep.Update(
        model, torch.optim.SGD(model.parameters(), lr=2.0**-10), loss=loss, scale=truestep.LossScale.dynamic(2.0**127)
    )
    outcomes = [update([_batch(2.0**13)]) for _ in range(ATTEMPTS)]
    counts = outcomes[-1].counts
    return Edge(
        where="the first attempts of a dynamic scale that starts too high: skips that are how it finds its place",
        check=Check(
            what="skips before the first completed attempt, and how often the alarm sounded",
            expected=(13, 0),
            measured=(counts.skipped, len(sounded(outcomes))),
            because="2^13 x 2^127 leaves float32, whose range ends below 2^128, until the scale has halved 13 times to 2^114",
        ),
    )


LAB = Lab(
    name="skip-rate",
    facts=("D4",),
    topic="clocks",
    title="Skips are evidence",
    claim="A high rate of skipped attempts is evidence about inputs, range or stability. It is shown beside the throughput, with "
    "its reasons, and never averaged away.",
    source="Micikevicius et al. 2018, where an update that overflows is skipped; the counts say how often that was",
    condition="the scale has found its place: skips before the first completed attempt may be no more than that.",
    shows=shows,
    after=(After(lab="ninety", why="it tells seen examples from applied ones"),),
    asks=(
        Number(
            key="overstated",
            prompt="12 of 40 attempts are skipped. A log prints 1000 examples read a second. How many a second are learnt from?",
            unit="examples/s",
            answer=lambda shown: 1000 / shown.measured("examples seen over examples applied"),
            why="28 of 40 were applied: 1000 x 28 / 40 = 700.",
            tempting=(
                Tempting(value=lambda _: 1000.0, why="So many are read. A skipped window changes no weight."),
                Tempting(
                    value=lambda shown: 1000 * shown.measured("share of attempts skipped"),
                    why="Those are the ones that are lost.",
                ),
            ),
        ),
        Buckets(
            key="cured",
            prompt="Two runs skip 12 of 40 attempts. Sort them by what to look at first.",
            buckets=("the data", "the range"),
            answer=lambda shown: {
                row[0]: "the data" if row[2] == "non-finite input" else "the range" for row in shown.table(RUNS).rows
            },
            why={
                "a NaN in the data": "no scale makes an input finite: look at what was read, by the place that the skip names",
                "gradients near the end of the range": "finite at a smaller scale: look at the scale, and at what grows so large",
            },
        ),
        Choice(
            key="start",
            prompt="A run skips its first 13 attempts and none after. What does that tell?",
            answer=lambda shown: shown.measured("skips before the first completed attempt, and how often the alarm sounded")[1],
            options=(
                Option(text="that the scale began too high and came down", value=0, why="Each skip halved it; then it fitted."),
                Option(
                    text="that something is wrong, as at any rate of 30 %",
                    value=1,
                    why="Tempting: 13 of 40 is much. But they lie before the first update and each lowered the scale.",
                ),
            ),
        ),
        Open(
            key="faster",
            prompt="A colleague reports that float16 runs 1.4 times as many steps a second as float32. 30 % of its attempts are "
            "skipped. What do you say?",
            rubric=(
                "70 % of 1.4 is 0.98: it completes no more updates a second",
                "Asks for the reasons of the skips, and where in the run they lie",
                "Does not subtract the rate and go on: 30 % says that something is wrong",
            ),
            strong="1.4 x 0.7 = 0.98, so it makes no more updates a second. But first I want to know why 30 % are skipped: by "
            "reason and by place. A sound run with a growth interval of 2000 skips about one attempt in as many at most.",
            weak="Then it is only 1.1 times as fast, which is still good.",
            follow_up="Which counts would you print beside examples a second?",
        ),
    ),
)
