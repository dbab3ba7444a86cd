"""Each of N losses divided by N is the full batch; not divided is N times the gradient, which SGD shows and Adam hides."""

from __future__ import annotations

import math

from truestep.labs.accumulation._divided import LIMIT, LR, SMALL, N, adam, by_hand, by_the_engine
from truestep.labs.asking.ask import Buckets, Build, Choice, Column, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

LARGE = tuple(8 * gradient for gradient in SMALL)
"""Those of a second window, whose mean of 2.5 is longer than the limit."""
MEAN = math.fsum(SMALL) / N
ROUNDINGS = 32 * 2.0**-24
"""An Adam step has under sixteen float32 operations a step; two steps, relative."""
MOVES = "how far a weight of 0 moves in one window"


def shows() -> Shown:
    """One window divided, raw, and raw at a smaller rate; and two windows under Adam and a clip."""
    engine = by_the_engine([SMALL], "SGD")
    checks = (
        Check(
            what="gradient at the optimizer by the engine",
            expected=MEAN,
            measured=engine / LR,
            because="(0.25 + 0.5 + 0.125 + 0.375) / 4, all exact in float32; the rate is a power of two",
        ),
        Check(
            what="the same of the four joined into one batch",
            expected=MEAN,
            measured=by_the_engine([SMALL], "SGD", joined=True) / LR,
            because="the mean of means over equal counts is the mean",
        ),
        Check(
            what="the loop by hand, each loss divided by 4",
            expected=MEAN,
            measured=by_hand([SMALL], "SGD", divided=True) / LR,
            because="the division as it is commonly written",
        ),
    )
    rows = tuple(
        (
            optimizer,
            by_hand([SMALL], optimizer, divided=True),
            by_hand([SMALL], optimizer, divided=False),
            by_hand([SMALL], optimizer, divided=False, rate=LR / N),
        )
        for optimizer in ("SGD", "Adam")
    )
    table = Table(title=MOVES, columns=("optimizer", "divided by 4", "raw", "raw at rate / 4"), rows=rows)
    return Shown(checks=checks, wrong=(_sgd(), _adam_clipped()), edges=(_adam(), _rate_sgd(), _rate_adam()), tables=(table,))


def statements(moves: Table) -> dict[str, str]:
    """What is said of losses that are not divided, held against how far the weight moved; Adam to six digits."""
    found = {}
    for name, divided, raw, repaired in moves.rows:
        found[f"{name} moves 4 times too far"] = math.isclose(raw, N * divided, rel_tol=1e-6)
        found[f"{name} at rate / 4 moves as it should"] = math.isclose(repaired, divided, rel_tol=1e-6)
    return {words: "holds" if holds else "breaks" for words, holds in found.items()}


def _sgd() -> Wrong:
    reached = by_hand([SMALL], "SGD", divided=False)
    check = Check(
        what="SGD's step with raw losses",
        expected=LR * math.fsum(SMALL),
        measured=reached,
        because="backward adds: the rate times the sum, which is 4 times the mean",
    )
    return Wrong(
        how="leave the division out, with SGD", check=check, damage=f"{reached / by_the_engine([SMALL], 'SGD'):g} times too far"
    )


def _adam_clipped() -> Wrong:
    """Under a clip the two windows lose their proportion."""
    cut = [min(math.fsum(window), LIMIT) for window in (SMALL, LARGE)]
    reached, right = (
        by_hand([SMALL, LARGE], "Adam", divided=False, clip=True),
        by_the_engine([SMALL, LARGE], "Adam", clip=True),
    )
    expected = adam(cut)
    check = Check(
        what="Adam's way over two windows with raw losses under a clip at 1",
        expected=expected,
        measured=reached,
        within=expected * ROUNDINGS + 2 * LR * 1e-6,
        because="sums of 1.25 and 10 are both cut to 1, where means of 0.3125 and 2.5 become 0.3125 and 1; torch's clip adds "
        "1e-6",
    )
    damage = f"{reached:.5f} in place of {right:.5f}: windows that differ eight times now look alike"
    return Wrong(how="leave the division out, with Adam and a clip", check=check, damage=damage)


def _adam() -> Edge:
    raw, right = by_hand([SMALL], "Adam", divided=False), by_the_engine([SMALL], "Adam")
    return Edge(
        where="Adam without a clip divides by the gradient's own size: the mistake does not show",
        check=Check(
            what="Adam's step with raw losses over the right one",
            expected=adam([math.fsum(SMALL)]) / adam([MEAN]),
            measured=raw / right,
            within=2 * ROUNDINGS,
            because="4g / (4g + 1e-8) and g / (g + 1e-8) are 1 to seven digits both",
        ),
    )


def _rate_sgd() -> Edge:
    return Edge(
        where="plain SGD: raw losses are N times the learning rate, and a rate N times smaller repairs it",
        check=Check(
            what="SGD's step with raw losses at a quarter of the rate",
            expected=LR * MEAN,
            measured=by_hand([SMALL], "SGD", divided=False, rate=LR / N),
            because="rate / 4 times 4 times the mean; powers of two are exact",
        ),
    )


def _rate_adam() -> Edge:
    expected = adam([math.fsum(SMALL)], LR / N)
    return Edge(
        where="Adam: there the same repair makes a right step four times too short",
        check=Check(
            what="Adam's step with raw losses at a quarter of the rate",
            expected=expected,
            measured=by_hand([SMALL], "Adam", divided=False, rate=LR / N),
            within=expected * ROUNDINGS,
            because="Adam's first step is the rate, whatever the gradient's size",
        ),
    )


LAB = Lab(
    name="divide-by-n",
    facts=("B2",),
    topic="accumulation",
    title="Divide by N",
    claim="N equal microbatches with mean losses: each loss divided by N before backward gives the full batch's gradient. Left "
    "out, the gradient is N times too long, which is the same as N times the learning rate.",
    source="a common account of gradient accumulation, with a rule of thumb about the learning rate",
    condition="the last part holds for plain SGD without a clip. Adam divides the factor out again, and a clip cuts it off.",
    shows=shows,
    after=(After(lab="constant-scale", why="the N here is a weight that stays, the scale there one that goes"),),
    asks=(
        Number(
            key="sgd",
            prompt="Four microbatches, gradients 0.25, 0.5, 0.125, 0.375, SGD at rate 0.0625, losses not divided. How far does "
            "the weight move?",
            answer=lambda shown: shown.measured("SGD's step with raw losses"),
            why="0.0625 x (0.25 + 0.5 + 0.125 + 0.375) = 0.078125: the sum, not the mean.",
            tempting=(
                Tempting(
                    value=lambda _: LR * MEAN, why="That is the right step, with the mean. backward adds, it does not average."
                ),
                Tempting(
                    value=lambda shown: shown.table(MOVES).column("raw")[1],
                    why="That is Adam's step, which is the rate whatever the gradient's size.",
                ),
            ),
        ),
        Choice(
            key="repair",
            prompt="A run with Adam forgot the division. Someone divides the learning rate by 4 instead. The step is then:",
            answer=lambda shown: round(shown.measured("Adam's step with raw losses at a quarter of the rate") / LR, 3),
            options=(
                Option(text="a quarter of the right one", value=0.25, why="Adam had divided the 4 out already."),
                Option(text="the right one", value=1.0, why="Tempting: it is what happens with SGD."),
                Option(text="four times the right one", value=4.0, why="That is SGD without any repair."),
            ),
        ),
        Buckets(
            key="statements",
            prompt="Four equal microbatches whose losses are not divided. Which statements hold, and which break?",
            buckets=("holds", "breaks"),
            answer=lambda shown: statements(shown.table(MOVES)),
            why={
                "SGD moves 4 times too far": "backward adds, and SGD moves by what it is given",
                "SGD at rate / 4 moves as it should": "1/4 of 4 times as far",
                "Adam moves 4 times too far": "it divides by the gradient's own size, so the 4 cancels",
                "Adam at rate / 4 moves as it should": "there was nothing to repair, so that it is 4 times too short",
            },
        ),
        Column(
            key="moves",
            prompt="Losses not divided, rate 0.0625, N = 4. How far does each optimizer move the weight?",
            table=lambda shown: shown.table(MOVES),
            blank="raw",
            why="SGD goes by the sum of 1.25, Adam by the sign alone on its first step.",
        ),
        Open(
            key="hidden",
            prompt="A run with Adam has trained well for months without the division. Name a change after which it goes wrong.",
            rubric=(
                "A clip by norm is added, or its limit was tuned to raw sums",
                "N is changed, or the last window of an epoch is shorter, so that the factor is no constant",
                "The optimizer becomes SGD, or epsilon or the logged norms start to matter",
            ),
            strong="Adding a norm clip at 1: sums are cut that means would not be, so large and small windows come to look "
            "alike. Or another N, for Adam hides a constant factor and no other.",
            weak="Nothing can go wrong: Adam normalises.",
        ),
        Build(
            key="build",
            prompt="Build it: complete the loop that truestep labs --milestone 2 prints, windows of four batches of equal size.",
            milestone="2",
            why="Divide each loss by the four before its backward; unscale, clip, step, update and zero once a window, not once "
            "a batch: then the weights are those of the float32 full batch, within what float16 explains.",
        ),
    ),
)
