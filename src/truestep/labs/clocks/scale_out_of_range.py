"""A loss scale that has fallen too far misses overflows itself: below 1 unscaling can overflow, and at 0 it makes NaN."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

import truestep
from truestep.labs.asking.ask import Choice, Number, Option, Tempting
from truestep.labs.chosen import linear, loss
from truestep.labs.clocks.missed_overflows import CLEAN, SCALE, Hand, told
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

SMALL = 2.0**-10
"""A loss scale below 1, as many overflows leave it."""
FACTORS = torch.tensor([[2.0**70], [2.0**60]])
"""A gradient of 2^130: no float32, but 2^-10 of it is one."""
HALVINGS = 166
"""From 2^16 to 2^-149, the smallest float32, takes 165; the next gives 0."""
TO_FLOOR = 32
"""Halvings from 2^16 to 2^-16, the engine's floor."""
FALLS = "a scale halved at every attempt, by torch"


def shows() -> Shown:
    """Both failures by hand and by the engine, and the way of a scale down to 0."""
    engine = {"after 166 NaN inputs, a clean attempt": after_many(), "a gradient of 2^130 at a scale of 2^-10": too_large()}
    expected = ((f"{-CLEAN:g}", "completed"), ("0", "unscale overflow"))
    why = (
        "a NaN input leaves the scale alone, and it has a floor of 2^-16 besides: the 3 is applied",
        "the gradient is inspected in original units, beyond float32 here",
    )
    checks = tuple(
        Check(what=f"{name}, by the engine", expected=wanted, measured=(f"{weight:g}", said), because=because)
        for (name, (weight, said)), wanted, because in zip(engine.items(), expected, why, strict=True)
    )
    hand, fallen = falling()
    rows = tuple((count, fallen[count - 1]) for count in (1, 16, 142, 165, 166))
    table = Table(title=FALLS, columns=("NaN inputs", "next loss scale"), rows=rows)
    return Shown(checks=checks, wrong=(_scale_of_zero(hand), _small_scale()), edges=(_floor(),), tables=(table,))


def after_many() -> tuple[float, str]:
    """A clean attempt after 166 that no scale can cure."""
    model, x = linear((CLEAN,))
    scale = truestep.LossScale.dynamic(SCALE)
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=1.0), loss=loss, scale=scale)
    for _ in range(HALVINGS):
        update([torch.tensor([[math.nan]])])
    return told(model, update([x]))


def too_large() -> tuple[float, str]:
    """A gradient that fits into float32 only while it is scaled by 1/1024."""
    model, _ = linear((CLEAN,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scale = truestep.LossScale.dynamic(SMALL)
    return told(model, truestep.Update(model, optimizer, loss=product, scale=scale, check_weight=False)([FACTORS]))


def product(model: nn.Module, factors: Tensor) -> Tensor:
    """The weight times both factors, one after the other."""
    (weight,) = model.parameters()
    return (weight * factors[0] * factors[1]).sum()


def falling() -> tuple[Hand, list[float]]:
    """torch's loop after 166 NaN inputs, and its scale after each."""
    hand, found = Hand(), []
    for _ in range(HALVINGS):
        hand.backward(math.nan)
        hand.step()
        found.append(hand.scaler.get_scale())
    return hand, found


def _scale_of_zero(hand: Hand) -> Wrong:
    scale = hand.scaler.get_scale()
    hand.backward(CLEAN)
    hand.step()
    check = Check(
        what="scale after 166 NaN inputs, then the weight after one clean attempt",
        expected=("0.0", "nan"),
        measured=(str(scale), str(hand.weight)),
        because="2^16 / 2^166 is below float32's smallest; 0 times the gradient is finite, and unscaled it is 0 / 0",
    )
    return Wrong(how="a scale without a floor", check=check, damage="the first sound gradient destroys the weights")


def _small_scale() -> Wrong:
    hand = Hand(SMALL)
    torch.autograd.backward(hand.scaler.scale(product(hand.model, FACTORS)))
    hand.step()
    check = Check(
        what="weight after a gradient that fits only while it is scaled by 1/1024",
        expected=-math.inf,
        measured=hand.weight,
        because="2^130 / 2^10 = 2^120 passes the check; unscaling then multiplies by 2^10, and 2^130 is beyond float32",
    )
    return Wrong(how="a scale below 1, checked while scaled", check=check, damage="infinity is written into the weight")


def _floor() -> Edge:
    model, x = linear((CLEAN,))
    scale = truestep.LossScale.dynamic(SCALE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    update = truestep.Update(model, optimizer, loss=loss, scale=scale, incurable="backoff")
    for _ in range(TO_FLOOR + 2):
        update([torch.tensor([[math.nan]])])
    outcome = update([x])
    return Edge(
        where="an engine that is told to halve at every skip, as torch does: it stops at its floor",
        check=Check(
            what="scale after 34 NaN inputs, then the weight after one clean attempt",
            expected=(2.0**-16, -CLEAN),
            measured=(outcome.loss_scale, model.weight.item()),
            because="32 halvings lead to the floor of 2^-16, and two more change nothing; a power of two scales exactly",
        ),
    )


LAB = Lab(
    name="scale-out-of-range",
    facts=("D8",),
    topic="clocks",
    title="A scale that fell too far",
    claim="A loss scale that has fallen too far misses overflows itself: below 1 unscaling can overflow after the check, and "
    "at 0 it makes NaN of a sound gradient. So it needs a floor, and gradients are inspected in original units.",
    source="torch.amp.GradScaler.update, which multiplies the scale by backoff_factor and names no minimum; IEEE 754-2019, in "
    "which 0 / 0 is NaN",
    shows=shows,
    after=(
        After(lab="told-apart", why="it shows skips that no smaller scale cures, which drive a scale down in vain"),
        After(lab="missed-overflows", why="it shows what else keeps an overflow from being seen"),
        After(lab="exact-scaling", why="it shows the scales that leave no trace; these do"),
    ),
    asks=(
        Number(
            key="halvings",
            prompt="A scale of 2^16 is halved at every NaN input and has no floor. What is left of it after 166 of them?",
            answer=lambda shown: float(shown.measured("scale after 166 NaN inputs, then the weight after one clean attempt")[0]),
            within=0.0,
            why="0. 2^-149 is float32's smallest number; half of it rounds to 0, and 0 / 0 then becomes the weight.",
            tempting=(
                Tempting(value=lambda _: 2.0**-150, why="That would be it in exact arithmetic; float32 does not reach so far."),
                Tempting(value=lambda _: 2.0**-149, why="So it stands after 165. The next halving rounds to 0."),
            ),
        ),
        Choice(
            key="below",
            prompt="At a scale of 2^-10 the stored gradient is 2^120, finite. The check passes. What reaches the weight?",
            answer=lambda shown: shown.measured("weight after a gradient that fits only while it is scaled by 1/1024"),
            options=(
                Option(text="minus infinity", value=-math.inf, why="Unscaled it is 2^130, which float32 does not hold."),
                Option(
                    text="-2^120",
                    value=-(2.0**120),
                    why="That is the stored gradient, which still bears the scale of 2^-10.",
                ),
                Option(
                    text="nothing: it is skipped",
                    value=0.0,
                    why="Tempting: the result is infinite. The check was made before the division; the engine makes it after.",
                ),
            ),
        ),
    ),
)
