"""Within a window the loss scale stays what it is: one division cannot take two scales out."""

from __future__ import annotations

from truestep.labs.accumulation._two_scales import (
    FIRST,
    G1,
    G2,
    LOSSES,
    SECOND,
    SUM,
    accumulated,
    by_hand,
    by_the_engine,
    named,
    overflowing,
    traced,
)
from truestep.labs.asking.ask import Choice, Column, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

WHOLE = "a window of four by the engine whose second microbatch overflows"
WINDOWS = "two windows by the engine, its scale doubling after each"
TRACE = "a window of four with torch's GradScaler, by microbatch"
SUMMED = "what one division leaves of 0.5 and 1"


def shows() -> Shown:
    """The engine with a scale that moves after every window, and loops whose scale moves inside one."""
    outcomes, reached = by_the_engine(2)
    checks = (
        Check(
            what="gradients at the optimizer, two windows by the engine",
            expected=(SUM, SUM),
            measured=tuple(reached),
            because="the scale is the same for both microbatches of a window, and a power of two: it divides out to the bit",
        ),
        Check(
            what="loss scales of the two windows",
            expected=(FIRST, SECOND),
            measured=tuple(outcome.loss_scale for outcome in outcomes),
            because="it moves, for its interval is 1, and only between windows",
        ),
    )
    rows = tuple(
        (number + 1, out.loss_scale, got, out.next_loss_scale)
        for number, (out, got) in enumerate(zip(outcomes, reached, strict=True))
    )
    table = Table(title=WINDOWS, columns=("window", "scale of both backwards", "gradient", "scale after it"), rows=rows)
    pairs = ((FIRST, FIRST), (FIRST, SECOND), (SECOND, FIRST))
    sums = Table(
        title=SUMMED,
        columns=("first scale", "second scale", "stored", "divided by the second"),
        rows=tuple((one, two, *accumulated(one, two)) for one, two in pairs),
    )
    trace = Table(title=TRACE, columns=("microbatch", "loss", "loss scale", "scaled loss", "stored"), rows=traced())
    return Shown(
        checks=(*checks, *_whole(), _scaled(trace)),
        wrong=(_grown(), _shrunk(), _named(), _unscaled_inside()),
        edges=(_converted(),),
        tables=(table, sums, trace),
    )


def _whole() -> tuple[Check, Check]:
    outcome, weight = overflowing()
    return (
        Check(
            what=WHOLE,
            expected=("backward overflow", "4 microbatches"),
            measured=(str(outcome.skip.reason) if outcome.skip else "completed", f"{outcome.microbatches} microbatches"),
            because="1e36 x 2048 is beyond 3.4e38: the window is run to its end and skipped as a whole",
        ),
        Check(
            what="scale of that window, scale after it, way of the weight",
            expected=(SECOND, SECOND / 2, 0.0),
            measured=(outcome.loss_scale, outcome.next_loss_scale, weight),
            because="one decision a window, after it: half the scale, and nothing of it reaches the weight",
        ),
    )


def _scaled(trace: Table) -> Check:
    return Check(
        what="scaled loss of each microbatch, each loss over 4",
        expected=tuple(value / len(LOSSES) * FIRST for value in LOSSES),
        measured=trace.column("scaled loss"),
        because="loss / 4 x 1024: the weight stays in it, the scale is divided out; powers of two are exact",
    )


def constant(trace: Table) -> tuple[str, ...]:
    """The columns in which every row has the same."""
    return tuple(name for name in trace.columns if len(set(trace.column(name))) == 1)


def _grown() -> Wrong:
    reached = accumulated(FIRST, SECOND)[1]
    check = Check(
        what="the scale doubles inside the window",
        expected=FIRST / SECOND * G1 + G2,
        measured=reached,
        because="(1024 x 0.5 + 2048 x 1) / 2048: the first microbatch counts half",
    )
    return Wrong(how="scaler.update(2048.0) between two microbatches", check=check, damage=f"{reached:g} in place of {SUM:g}")


def _shrunk() -> Wrong:
    reached = accumulated(SECOND, FIRST)[1]
    check = Check(
        what="the scale halves inside the window, as after an overflow",
        expected=SECOND / FIRST * G1 + G2,
        measured=reached,
        because="(2048 x 0.5 + 1024 x 1) / 1024: the first microbatch counts twice",
    )
    return Wrong(how="back off in the middle and go on accumulating", check=check, damage=f"{reached:g} in place of {SUM:g}")


def _named() -> Wrong:
    check = Check(
        what="what verify names, of a loop whose scale moves inside the window",
        expected="scale-moved",
        measured=named(),
        because="the first of two microbatches has arrived with half its share, which is the ratio of the scales",
    )
    return Wrong(how="the same in a loop that trains", check=check, damage="the loss still falls, so only the gradient tells")


def _unscaled_inside() -> Wrong:
    reached = by_hand(lambda grad: grad.div_(FIRST))
    check = Check(
        what="unscaled after each microbatch",
        expected=G1 / FIRST + G2,
        measured=reached,
        because="the stored 0.5 is in original units when 1024 x 1 is added, and the last division takes both",
    )
    return Wrong(
        how="divide .grad by the scale after every backward", check=check, damage="all microbatches but the last are lost"
    )


def _converted() -> Edge:
    return Edge(
        where="what is stored is converted to the new scale when it moves: then it may move",
        check=Check(
            what="stored x 2048/1024 before the second backward",
            expected=SUM,
            measured=by_hand(lambda grad: grad.mul_(SECOND / FIRST), SECOND),
            because="both parts bear the scale of 2048 when it is divided out; exact, for 2 is a power of two",
        ),
    )


LAB = Lab(
    name="constant-scale",
    facts=("B1",),
    topic="accumulation",
    title="One scale a window",
    claim="The loss scale stays constant while a window accumulates. Gradients g1 and g2 stored at scales S1 and S2 and divided "
    "once, by S2, leave (S1/S2) g1 + g2.",
    source="torch.amp.GradScaler.update, which is to be called at the end of the iteration, after every step; the formula "
    "follows from one division",
    shows=shows,
    after=(
        After(lab="two-numbers", why="a scale that moves becomes a weight, which it shows to be another number"),
        After(lab="exact-scaling", why="a constant scale leaves no trace, which a changing one does"),
    ),
    asks=(
        Number(
            key="grown",
            prompt="Gradients 0.5 at scale 1024 and 1 at scale 2048 are added in .grad and divided by 2048. What is left?",
            answer=lambda shown: shown.measured("the scale doubles inside the window"),
            why="(512 + 2048) / 2048 = 1.25: half of the first and all of the second.",
            tempting=(
                Tempting(value=lambda _: SUM, why="So it would be with one scale. The 512 was stored at 1024."),
                Tempting(
                    value=lambda shown: shown.measured("the scale halves inside the window, as after an overflow"),
                    why="That is the scale halving: the first counts twice.",
                ),
            ),
        ),
        Choice(
            key="overflow",
            prompt="The second of four microbatches overflows at scale 2048. What may the loop do?",
            answer=lambda shown: "go on" if shown.measured(WHOLE)[0] == "completed" else "skip",
            options=(
                Option(
                    text="go on to the end of the window, skip it as a whole, then halve the scale",
                    value="skip",
                    why="The window is the unit: one finiteness check, one decision, one scale.",
                ),
                Option(
                    text="halve the scale and run the other microbatches with it",
                    value="go on",
                    why="Tempting, for it saves the window. What is stored bears 2048, and besides it is not finite.",
                ),
            ),
        ),
        Column(
            key="scaled",
            prompt="Each loss is divided by the 4 microbatches and scaled. From which number does each backward begin?",
            table=lambda shown: shown.table(TRACE),
            blank="scaled loss",
            why="loss / 4 x 1024, with the same scale in all four.",
        ),
        Choice(
            key="cannot-change",
            prompt="Step through the trace of that window. Which column may not change from row to row, whatever the data, and "
            "what would happen if it did?",
            answer=lambda shown: ", ".join(constant(shown.table(TRACE))),
            options=(
                Option(
                    text="the loss scale: what is stored already would count by old over new scale",
                    value="loss scale",
                    why="One division at the end takes out one number.",
                ),
                Option(
                    text="the scaled loss: backwards of different size could not be added",
                    value="scaled loss",
                    why="Tempting, but losses differ, and so do scaled ones. They are added in one unit, the scale's.",
                ),
                Option(
                    text="what is stored: it is only written after the last microbatch",
                    value="stored",
                    why="Tempting: the optimizer reads it once. Each backward adds to it.",
                ),
            ),
        ),
        Open(
            key="between",
            prompt="A colleague calls scaler.update() after each microbatch 'so that the scale adapts sooner'. What do you "
            "answer?",
            rubric=(
                "One division at the end cannot take out two scales",
                "The ratio of the scales becomes a weight of the earlier microbatches",
                "Where it shows: in the gradient beside the full batch's, in no error and not in the loss curve",
            ),
            strong="Every move of the scale re-weights what is stored already, by old over new scale, and nothing reports it. "
            "Update once, after the window's step.",
            weak="It is slow.",
            follow_up="What would you have to do to .grad for it to be right?",
        ),
    ),
)
