"""Scaling and unscaling by a power of two changes no bit of a gradient that stays inside the format."""

from __future__ import annotations

import math
from fractions import Fraction

import torch

import truestep
from truestep.labs.asking.ask import Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import linear, loss
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

POWERS = (1.0, 8.0, 1024.0, 65536.0, 2.0**-10)
ODD = 1000.0
COUNT = 64
ULP = 2.0**-24
"""Half a step of float32, relative."""
SCALES = "a gradient of 64 numbers, by loss scale"
SMALL = 1e-7


def shows() -> Shown:
    """Bits that a scale changes, in float32 and through float16."""
    gradient = tuple(torch.randn(COUNT).tolist())
    plain = at_the_optimizer(gradient, truestep.LossScale.none())
    found = {scale: at_the_optimizer(gradient, truestep.LossScale.static(scale)) for scale in (*POWERS, ODD)}
    exact = Check(
        what=f"numbers that changed, at scales {', '.join(f'{scale:.4g}' for scale in POWERS)}",
        expected=(0,) * len(POWERS),
        measured=tuple(differ(plain, found[scale]) for scale in POWERS),
        because="a power of two moves the exponent and leaves the mantissa",
    )
    odd = Check(
        what="scale 1000: largest relative difference",
        expected=0.0,
        measured=largest(plain, found[ODD]),
        within=3 * ULP,
        because="three roundings: the product, 1/1000 itself, and the product with it; each half a step, 2^-24",
    )
    changed = Check(
        what="scale 1000: numbers that changed",
        expected=sum(_twice_rounded(value) != value for value in plain),
        measured=differ(plain, found[ODD]),
        because="the same three roundings by fractions, number by number",
    )
    wrong = Wrong(
        how="a scale that is no power of two",
        check=changed,
        damage=f"{changed.measured} of {COUNT} numbers change in their last bit: harmless, but no longer equal",
    )
    rows = tuple((scale, differ(plain, found[scale]), largest(plain, found[scale])) for scale in (*POWERS, ODD))
    table = Table(title=SCALES, columns=("loss scale", "numbers that changed", "largest change"), rows=rows)
    return Shown(checks=(exact, odd), wrong=(wrong,), edges=(_underflow(), _overflow()), tables=(table,))


def at_the_optimizer(gradient: tuple[float, ...], scale: truestep.LossScale) -> tuple[float, ...]:
    """What the engine hands to SGD, in float32; by a learning rate of 1 a weight of 0 becomes its negative."""
    model, x = linear(gradient)
    truestep.Update(model, torch.optim.SGD(model.parameters(), lr=1.0), loss=loss, scale=scale)([x])
    return tuple((-model.weight[0]).tolist())


def differ(left: tuple[float, ...], right: tuple[float, ...]) -> int:
    """How many numbers differ in any bit."""
    return sum(one != other for one, other in zip(left, right, strict=True))


def largest(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    """The largest relative difference."""
    return max(abs(other / one - 1) for one, other in zip(left, right, strict=True))


def _twice_rounded(value: float) -> float:
    """A float32 number times 1000, times the float32 nearest to 1/1000, rounded after each: by fractions."""
    return float(_float32(_float32(Fraction(value) * 1000) * _float32(Fraction(1, 1000))))


def _float32(exact: Fraction) -> Fraction:
    """The nearest number of 24 bits, ties to even."""
    step = Fraction(2) ** (math.frexp(float(exact))[1] - 24)
    return round(exact / step) * step


def through_float16(gradient: float, scale: truestep.LossScale) -> tuple[float, truestep.Outcome]:
    """A gradient that a float16 backward carries, as SGD moved by it, and the outcome."""
    model, x = linear((1.0,))
    update: truestep.Update[torch.Tensor] = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0),
        loss=lambda model, x: model(x).float().sum() * gradient,
        policy="fp16",
        scale=scale,
        allow_underflow=True,
    )
    outcome = update([x])
    return (-model.weight).item(), outcome


def _underflow() -> Edge:
    reached, _ = through_float16(SMALL, truestep.LossScale.none())
    scaled, _ = through_float16(SMALL, truestep.LossScale.static(65536.0))
    return Edge(
        where="below float16's smallest normal number the scale does change the gradient: that is what it is for",
        check=Check(
            what="1e-7 through float16, at scale 1 and 65536, relative error under 2^-11",
            expected=("no", "yes"),
            measured=tuple("yes" if abs(each / SMALL - 1) <= 2.0**-11 else "no" for each in (reached, scaled)),
            because="at scale 1 two steps of 2^-24 stand for 1e-7, 19 % too much; at 65536 all 11 bits are there",
        ),
    )


def _overflow() -> Edge:
    _, outcome = through_float16(1.5, truestep.LossScale.dynamic(init=65536.0))
    return Edge(
        where="above 65504 there is nothing to come back from",
        check=Check(
            what="1.5 through float16 at scale 65536",
            expected="backward overflow",
            measured="completed" if outcome.skip is None else str(outcome.skip.reason),
            because="98304 is infinite in float16, and infinity / 65536 is infinite: the attempt is skipped",
        ),
    )


LAB = Lab(
    name="exact-scaling",
    facts=("A7",),
    topic="scaling",
    title="A power of two leaves no trace",
    claim="Scaling the loss and unscaling the gradients leaves the mathematical gradient unchanged; for a power of two it "
    "leaves every bit of it unchanged.",
    source="Micikevicius et al. 2018; that a power of two changes nothing but the exponent, in IEEE 754's formats",
    condition="no number underflows or overflows, scaled or unscaled, in the format that carries it.",
    shows=shows,
    asks=(
        Number(
            key="changed",
            prompt="64 float32 gradients are scaled by 65536 and unscaled again. How many differ from the plain ones in any bit?",
            answer=lambda shown: _changed(shown, 65536.0),
            within=0.0,
            why="65536 is 2^16: 16 is added to the exponent and taken away again.",
            tempting=(
                Tempting(
                    value=lambda shown: _changed(shown, ODD),
                    why="So many change for a scale of 1000, whose products have to be rounded. Those of 2^16 do not.",
                ),
                Tempting(
                    value=lambda _: float(COUNT), why="Most multiplications round. One by a power of two has nothing to round."
                ),
            ),
        ),
        Choice(
            key="loss-change",
            prompt="Two runs, float32, loss scales 1 and 1024. What is different after one update?",
            answer=lambda shown: _changed(shown, 1024.0),
            options=(
                Option(text="nothing", value=0, why="What is scaled is unscaled, exactly, before the optimizer sees it."),
                Option(
                    text="the weights moved 1024 times as far",
                    value=1024,
                    why="Tempting: so it is if the gradients are not unscaled. See the tempting repairs.",
                ),
                Option(
                    text="all weights, in their last digits",
                    value=COUNT,
                    why="Tempting if scaling is thought of as one more rounding. Powers of two round nothing.",
                ),
            ),
            eliminate=True,
        ),
        Open(
            key="edge",
            prompt="Push the statement to its edges: for which gradients and scales does scaling change the result? Name three.",
            rubric=(
                "Scaled beyond the largest number: infinity, and it stays infinite",
                "Unscaled (or never scaled) below the smallest normal number: bits or the number are lost",
                "A scale that is no power of two: last bits change",
            ),
            strong="1.5 x 65536 is infinite in float16. 1e-7 at scale 1 has two bits left. At a scale of 1000 products round, so "
            "last bits change though nothing is lost.",
            weak="Very large scales are inaccurate.",
            follow_up="Is a scale of 2^-10 exact for a gradient of 1e-42 in float32?",
        ),
    ),
    after=(
        After(lab="clip-order", why="it shows where in an update the unscaling stands"),
        After(lab="rescued", why="it shows what a scale is for, which is why it has to leave no trace"),
        After(lab="below-normal", why="away from the smallest normal the claim is true; it shows what happens below"),
    ),
)


def _changed(shown: Shown, scale: float) -> int:
    """How many numbers a scale changed, by the table."""
    table = shown.table(SCALES)
    return int(table.column("numbers that changed")[table.column("loss scale").index(scale)])
