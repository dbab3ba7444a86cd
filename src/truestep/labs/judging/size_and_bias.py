"""Size and bias are two questions: an error within what a format explains can still have a direction, and adds up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import torch

import truestep
from truestep.labs.asking.ask import Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import linear
from truestep.labs.chosen import loss as mean_output
from truestep.labs.judging._erring import ATTEMPTS, verified
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

SIZE = 0.02
"""What is added to the gradient's length, relative, up or down."""
UNIT = 2.0**-8
"""Half the distance of neighbours in bfloat16, relative: the unit roundoff."""
ALLOWED = 3 * UNIT
"""What verify lets rounding to nearest leave of a direction: its safety factor of 3 on one roundoff."""
STUDENT = 2.3646242516
"""Student's t for 7 degrees of freedom at 97.5 %, to eleven digits."""
SPREAD = UNIT / math.sqrt(ATTEMPTS)
"""What the loop's own rounding leaves of a signed mean: a roundoff an attempt, and eight independent ones average out to this."""
UPDATES = 200
"""By the engine, in float32, each with such an error."""
TWO = "two loops whose errors have one size, over 8 attempts in bfloat16"


def shows() -> Shown:
    """A loop whose gradient is now 2 % long, now 2 % short, and one whose gradient is 2 % short each time."""
    signed: list[float] = []
    noisy, short = verified(lambda attempt: SIZE if attempt % 2 else -SIZE, signed=signed), verified(lambda _: -SIZE)
    assert noisy.bias.interval is not None
    assert short.bias.interval is not None
    half = STUDENT * statistics.stdev(signed) / math.sqrt(ATTEMPTS)
    checks = (
        Check(
            what="signed mean error, up and down by turns",
            expected=0.0,
            measured=noisy.bias.mean or 0.0,
            within=SPREAD,
            because="four of +0.02 and four of -0.02; the loop's own roundoff over sqrt(8), for no two windows are alike",
        ),
        Check(
            what="its interval's half width",
            expected=half,
            measured=(noisy.bias.interval.high - noisy.bias.interval.low) / 2,
            within=half * 1e-10,
            because="t(7) s / sqrt(8), s of eight signed errors against a float64 batch; t is given to eleven digits",
        ),
        Check(
            what="signed mean error, short each time",
            expected=-SIZE,
            measured=short.bias.mean or 0.0,
            within=SPREAD,
            because="-0.02 eight times; the same",
        ),
        Check(
            what="whole interval outside of what rounding may leave: by turns, each time",
            expected=("no", "yes"),
            measured=(_yes(noisy.bias.beyond), _yes(short.bias.beyond)),
            because=f"rounding to nearest may leave 3 roundoffs, {ALLOWED:.3g}; 0 lies inside of that and 0.02 outside",
        ),
        Check(
            what="passed: by turns, each time",
            expected=("yes", "no"),
            measured=(_yes(noisy.passed), _yes(short.passed)),
            because="no parameter is beyond what bfloat16 explains in either; the direction alone decides",
        ),
    )
    table = Table(
        title=TWO,
        columns=("error", "largest of a parameter", "explained", "signed mean", "from", "to", "verdict"),
        rows=(_row("by turns", noisy), _row("short each time", short)),
    )
    return Shown(
        checks=checks,
        wrong=(_sizes_alone(noisy, short), _added_up()),
        edges=(_one_attempt(), _large_and_unbiased()),
        tables=(table,),
    )


def _row(name: str, found: truestep.Verification) -> tuple[Any, ...]:
    worst = max(found.rows, key=lambda row: row.error or 0.0)
    interval = found.bias.interval
    assert interval is not None
    verdict = "passed" if found.passed else "failed by its direction" if not found.beyond else "failed by size"
    return (name, worst.error, worst.tolerance, found.bias.mean, interval.low, interval.high, verdict)


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


def _sizes_alone(noisy: truestep.Verification, short: truestep.Verification) -> Wrong:
    check = Check(
        what="parameters beyond what the format explains: by turns, each time",
        expected=(0, 0),
        measured=(len(noisy.beyond), len(short.beyond)),
        because="2 % is within what ten and more roundings of bfloat16 may add up to at one attempt",
    )
    return Wrong(
        how="judge by the size of each error alone",
        check=check,
        damage="the two look alike, and the loop that is always short goes through",
    )


def _moved(errors: Sequence[float]) -> float:
    """How far the engine takes a weight, from 0, by updates of 1 that each have their error."""
    model, _ = linear((1.0,))
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=1.0), loss=mean_output)
    for error in errors:
        update([torch.tensor([[1 + error]])])
    (weight,) = model.parameters()
    return -weight.item()


def _added_up() -> Wrong:
    turns, always = [SIZE if attempt % 2 else -SIZE for attempt in range(UPDATES)], [-SIZE] * UPDATES
    lost = UPDATES - _moved(turns), UPDATES - _moved(always)
    check = Check(
        what="updates' worth of distance lost in 200: by turns, each time",
        expected=(0.0, UPDATES * SIZE),
        measured=lost,
        within=UPDATES * (2.0**-17 + 2.0**-24),
        because="no direction cancels, a direction grows with the updates; each sum below 256 rounds by 2^-17 at most",
    )
    return Wrong(
        how="take each small error for harmless",
        check=check,
        damage=f"{lost[1]:.2g} of {UPDATES} updates are missing, as if the learning rate were 2 % lower",
    )


def _one_attempt() -> Edge:
    bias = verified(lambda _: -SIZE, attempts=1).bias
    return Edge(
        where="one attempt: there is a signed error, and no interval",
        check=Check(
            what="interval of one attempt",
            expected="none",
            measured="none" if bias.interval is None else "one",
            because="one number has no spread; it takes two",
        ),
    )


def _large_and_unbiased() -> Edge:
    found = verified(lambda attempt: 0.5 if attempt % 2 else -0.5)
    return Edge(
        where="half too long and half too short by turns: no direction, and wrong; here the size decides",
        check=Check(
            what="a parameter beyond, a direction beyond",
            expected=("yes", "no"),
            measured=(_yes(bool(found.beyond)), _yes(found.bias.beyond)),
            because="50 % is far beyond bfloat16, and the signed mean of +0.5 and -0.5 is 0",
        ),
    )


LAB = Lab(
    name="size-and-bias",
    facts=("E5",),
    topic="judging",
    title="Size and bias",
    claim="Large or systematic discrepancies want investigation. Size and bias are two questions: the signed mean error over K "
    "attempts is given with an interval.",
    source="Student 1908, The Probable Error of a Mean, for the interval; that rounding to nearest favours no direction is the "
    "usual model of it",
    condition="there are two attempts at least; and the interval covers the true mean at its 95 % only where attempts are "
    "independent, as those that alternate by rule here are not.",
    shows=shows,
    after=(After(lab="float16-full-batch", why="it has the criterion for the size; the bias is asked beside it"),),
    asks=(
        Number(
            key="mean",
            prompt="Eight attempts: four gradients 2 % too long, four 2 % too short. What is the signed mean error?",
            answer=lambda shown: round(shown.measured("signed mean error, up and down by turns"), 2),
            within=0.0,
            why="0: they cancel. What is left is the rounding of the loop.",
            tempting=(
                Tempting(value=lambda _: SIZE, why="That is the mean of the sizes. A direction needs the sign."),
                Tempting(value=lambda _: -SIZE, why="So it would be if all eight were short."),
            ),
        ),
        Choice(
            key="verdict",
            prompt="Eight attempts are 2 % short each, which bfloat16 could explain of any one. What does verify say?",
            answer=lambda shown: shown.measured("passed: by turns, each time")[1],
            options=(
                Option(
                    text="failed: the errors have a direction",
                    value="no",
                    why="Eight errors down, 2 % each, are more than the 3 roundoffs (1.2 %) that rounding may leave one way.",
                ),
                Option(
                    text="passed: each is within the tolerance",
                    value="yes",
                    why="Tempting: no single attempt is beyond it. The eight together are.",
                ),
            ),
        ),
        Open(
            key="investigate",
            prompt="A verification reports: bias -0.9 % (95 %: -1.0 % to -0.8 %), allowed 1.2 %. What do you conclude?",
            rubric=(
                "There is a direction: 0 is outside of the interval",
                "It is within what is allowed, so that it is no failure",
                "Looks for a cause that rounds one way: truncation, underflow, a count with padding in it",
                "More attempts narrow the interval, not the bias",
            ),
            strong="A real but small direction: the interval leaves 0 out and lies within what is allowed. I would look for "
            "something that loses the same way each time, such as underflow or a count that includes padding.",
            weak="It passed, so nothing is there.",
            follow_up="What would you do if it were 0.0 % (95 %: -5 % to 5 %)?",
        ),
    ),
)
