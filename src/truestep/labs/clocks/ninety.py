"""100 attempts of which 10 are skipped are 90 completed updates, and a record says all of it."""

from __future__ import annotations

import truestep
from truestep.labs.asking.ask import Choice, Column, Number, Open, Option, Tempting
from truestep.labs.clocks._tenths import ATTEMPTS, EVERY, MICROBATCHES, SCALE, TOKENS, Trained, rounds, trained
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong
from truestep.ledger.summary import Summary
from truestep.pages.words import percent

SKIPPED = ATTEMPTS // EVERY
COMPLETED = ATTEMPTS - SKIPPED
BACKOFFS = SCALE / 2**SKIPPED
RECORD = "what the record of the 100 attempts holds"
DURING = "the same record on the way"


def shows() -> Shown:
    """A run with overflows and one without, added up from the lines that a ledger would hold."""
    run, clean = trained(overflows=True), trained(overflows=False)
    summary = run.summary()
    counts = summary.counts
    checks = (
        Check(
            what="attempts, completed, skipped",
            expected=(ATTEMPTS, COMPLETED, SKIPPED),
            measured=(counts.attempts, counts.completed, counts.skipped),
            because="100 windows, every tenth of which overflows: 100 - 10 = 90",
        ),
        Check(
            what="distance moved, in updates",
            expected=float(COMPLETED),
            measured=run.moved,
            because="each completed update moves the weight by 1/16 exactly, a skipped attempt by nothing",
        ),
        Check(
            what="examples seen and applied",
            expected=(ATTEMPTS * MICROBATCHES, COMPLETED * MICROBATCHES),
            measured=(counts.examples_seen, counts.examples_applied),
            because="two an attempt: what a skipped window held was read and not learnt from",
        ),
        Check(
            what="tokens seen and applied",
            expected=(ATTEMPTS * MICROBATCHES * TOKENS, COMPLETED * MICROBATCHES * TOKENS),
            measured=(counts.tokens_seen or 0, counts.tokens_applied or 0),
            because="ten an attempt",
        ),
        Check(
            what="skipped and why",
            expected=(f"{SKIPPED} backward overflow",),
            measured=tuple(f"{skips} {reason}" for reason, skips in counts.skipped_by_reason.items()),
            because="2000 is finite in float16, half of it times a scale of 128 or more is beyond 65504, each time",
        ),
        Check(
            what="scheduler ticks, on completed updates",
            expected=COMPLETED,
            measured=counts.ticks,
            because="the clock was declared so; on attempts it would be 100",
        ),
        Check(
            what="smallest and largest loss scale used, then the next",
            expected=(BACKOFFS * 2, SCALE, BACKOFFS),
            measured=(*(summary.loss_scale or ()), run.outcomes[-1].next_loss_scale),
            because="65536 halved by each of ten overflows, the last of them at attempt 100",
        ),
    )
    return Shown(
        checks=checks,
        wrong=(_iterations(), _unequal(run.moved, clean.moved)),
        edges=(_bounded(),),
        tables=(_table(summary), _during(run)),
    )


def _iterations() -> Wrong:
    step, made = rounds()
    check = Check(
        what="rounds that the loop counted, and updates that it made",
        expected=(ATTEMPTS, COMPLETED),
        measured=(step, made),
        because="scaler.step() returns None whether or not it stepped, so that `step += 1` counts attempts",
    )
    return Wrong(
        how="count the loop's rounds as updates",
        check=check,
        damage=f"{step - made:g} updates too many in every log, schedule and budget that uses the number",
    )


def _unequal(moved: float, clean: float) -> Wrong:
    check = Check(
        what="updates of the run without skips over those of the run with them",
        expected=ATTEMPTS / COMPLETED,
        measured=clean / moved,
        because="100 / 90: both ran 100 attempts",
    )
    return Wrong(
        how="compare the two runs at 100 attempts each",
        check=check,
        damage=f"one of them was given {percent(clean / moved - 1, 2)} more updates; its lead may be no more than that",
    )


def _bounded() -> Edge:
    at_90 = trained(overflows=False, attempts=COMPLETED)
    return Edge(
        where="stopped at 90 completed updates each, the two may be compared; and not beyond: the examples are not the same",
        check=Check(
            what="distance, then examples seen, of the run without skips at 90 completed updates",
            expected=(float(COMPLETED), float(COMPLETED * MICROBATCHES)),
            measured=(at_90.moved, float(at_90.summary().counts.examples_seen)),
            because="90 updates as in the other run, from 180 examples where that has read 200 and dropped 20",
        ),
    )


def _table(summary: Summary) -> Table:
    counts = summary.counts
    (reason,) = counts.skipped_by_reason
    rows = (
        ("attempts", counts.attempts),
        ("completed", counts.completed),
        (f"skipped: {reason}", counts.skipped),
        ("examples seen", counts.examples_seen),
        ("examples applied", counts.examples_applied),
        ("tokens seen", counts.tokens_seen),
        ("tokens applied", counts.tokens_applied),
        ("scheduler ticks", counts.ticks),
        ("smallest loss scale", summary.loss_scale and summary.loss_scale[0]),
        ("largest loss scale", summary.loss_scale and summary.loss_scale[1]),
    )
    return Table(title=RECORD, columns=("field", "value"), rows=rows)


def _during(run: Trained) -> Table:
    columns = ("attempt", "completed", "skipped", "examples applied", "next loss scale")
    shown = (run.outcomes[attempt - 1] for attempt in (9, 10, 11, 20, 50, 100))
    rows = ((*_counted(one.counts), one.next_loss_scale) for one in shown)
    return Table(title=DURING, columns=columns, rows=tuple(rows))


def _counted(counts: truestep.Counts) -> tuple[int, int, int, int]:
    return counts.attempts, counts.completed, counts.skipped, counts.examples_applied


LAB = Lab(
    name="ninety",
    facts=("D1", "D2"),
    topic="clocks",
    title="A hundred attempts, ninety updates",
    claim="100 attempts of which 10 are skipped are 90 completed updates: not the budget of 100 of 100. A record therefore holds "
    "attempts, completed, skipped and why, examples and tokens seen and applied, scheduler ticks, and the loss scale.",
    source="torch.amp.GradScaler.step, which skips optimizer.step() where gradients are not finite; the counts follow from it",
    shows=shows,
    after=(After(lab="order-of-an-update", why="it has the finite check, without which nothing is skipped"),),
    asks=(
        Number(
            key="completed",
            prompt="A run makes 100 attempts. Every tenth overflows and is skipped. How many updates were completed?",
            answer=lambda shown: shown.measured("attempts, completed, skipped")[1],
            within=0.0,
            why="100 - 10 = 90. The weight has moved exactly ninety times.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.measured("attempts, completed, skipped")[0],
                    why="That is what `step += 1` counts: rounds of the loop, whatever came of them.",
                ),
                Tempting(
                    value=lambda shown: shown.measured("attempts, completed, skipped")[2],
                    why="Those are the ones that were skipped.",
                ),
            ),
        ),
        Choice(
            key="seen",
            prompt="Two examples an attempt, 100 attempts, 10 skipped. How many examples has the model learnt from?",
            answer=lambda shown: shown.measured("examples seen and applied")[1],
            options=(
                Option(text="180", value=180, why="90 completed updates of two: examples applied."),
                Option(text="200", value=200, why="Tempting: so many were read and computed on. 20 of them changed nothing."),
                Option(
                    text="190", value=190, why="That would be one example lost with each skip. A skip loses its whole window."
                ),
            ),
            eliminate=True,
        ),
        Column(
            key="scale",
            prompt="A scale of 65536 halves on each overflow (attempts 10, 20, ... 100). What is the next loss scale?",
            table=lambda shown: shown.table(DURING),
            blank="next loss scale",
            within=0.0,
            why="65536 / 2^skips; it does not grow again within 2000 clean attempts.",
        ),
        Open(
            key="budget",
            prompt="Run A: 100 attempts, 10 skipped. Run B: 100 attempts, none skipped. B's loss is lower, and someone concludes "
            "that B's precision is better. What do you answer?",
            rubric=(
                "Run A has completed ninety updates",
                "So the budgets differ: equal attempts are not equal completed updates",
                "Asks by what the scheduler ticked: attempts or completed updates",
                "Wants the record: skips and their reasons, examples applied, ticks, loss scale",
                "Bounds the comparison: both at 90 completed updates, and then about quality at equal updates, not about time",
            ),
            strong="A made ninety updates, B a hundred, so they had different budgets. I would compare both at ninety completed "
            "updates, after asking what the scheduler ticked by and why ten were skipped. Even then it tells about quality at "
            "equal updates; for time I need both to reach one target.",
            weak="Ten skips are few, so the comparison is fair.",
            follow_up="B read 180 examples by its ninetieth update, and A 200. Which count would you equalise, and why?",
        ),
        Open(
            key="reasons",
            prompt="A table of counts has the rows attempts, completed updates, examples applied. Add a column: why would you "
            "let a schedule tick by it? Then pick one row, and say what you give up.",
            rubric=(
                "Attempts: it ends when planned, whatever is skipped",
                "Completed updates: it follows what the weights and the optimizer's moments have been through",
                "Examples applied: it stays the same when the batch changes",
                "Picks one, and names what the other two would have given",
            ),
            strong="Attempts end on time; updates follow the weights; examples applied outlive a new batch. I pick updates, "
            "and give up knowing when it ends if attempts are skipped, and have to convert when the batch changes.",
            weak="Attempts, as the loop counts them anyway.",
        ),
        Open(
            key="confidence",
            prompt="Before you look: how sure are you, from 1 to 5, that `step` in your own loop counts completed updates? Now "
            "explain what it counts.",
            rubric=(
                "Names the line that moves the count",
                "Says what moves it on a skipped attempt",
                "Confidence and answer fit: a 4 or 5 goes with having looked",
            ),
            strong="A 2. `step += 1` stands after scaler.step, which says nothing, so mine counts attempts; the scheduler too.",
            weak="A 5, because each round calls scaler.step.",
        ),
    ),
)
