"""Without update() the scale never moves: torch raises at the second step, and a loop that evades that skips for ever."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

import truestep
from truestep.labs.asking.ask import Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import linear, loss
from truestep.labs.clocks._by_torch import one_attempt
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

GRADIENT, SCALE, ATTEMPTS = 2.0**120, 2.0**16, 20
"""Scaled by 2^16 the gradient is beyond float32, which ends below 2^128; scaled by 2^7 it is within."""
LR = 2.0**-120
"""A completed update moves the weight by 1."""
RESCUED = 9
"""Halvings from 2^16 to 2^7."""
LOOPS = f"{ATTEMPTS} attempts at a gradient that overflows at the first scale"
Loop = Callable[[torch.nn.Module, torch.optim.Optimizer, torch.Tensor], float]


def shows() -> Shown:
    """The loop without update(), the two ways around torch's check, and the loops that move the scale."""
    refused, raised_at = without_update()
    runs = {name: run(loop()) for name, loop in LOOPS_BY_NAME.items()}
    engine = by_the_engine()
    checks = (
        Check(
            what="attempt at which torch raises, and what",
            expected=("2", "RuntimeError"),
            measured=(str(raised_at), refused),
            because="its state still says that this optimizer was stepped since the last update()",
        ),
        Check(
            what="completed of 20, with update()",
            expected=ATTEMPTS - RESCUED,
            measured=runs["scaler.update()"][0],
            because="9 halvings lead from 2^16 to 2^7, at which 2^120 fits",
        ),
        Check(
            what="completed of 20, by the engine",
            expected=ATTEMPTS - RESCUED,
            measured=engine[0],
            because="the attempt moves its own scale: there is no call to forget",
        ),
    )
    damages = {
        "a new scaler each attempt": "each begins at 2^16 again",
        "scaling by hand": "the number is nobody's to move",
    }
    wrong = tuple(
        Wrong(
            how=name,
            check=Check(
                what=f"completed of 20, then the scale at the end: {name}",
                expected=(0.0, SCALE),
                measured=(float(runs[name][0]), runs[name][1]),
                because=f"{why}, and 2^136 overflows each time",
            ),
            damage=f"{ATTEMPTS - runs[name][0]} of {ATTEMPTS} attempts skipped, for ever, without an error",
        )
        for name, why in damages.items()
    )
    rows = (*((name, *found) for name, found in runs.items()), ("truestep.Update", *engine))
    table = Table(title=LOOPS, columns=("loop", "completed", "scale at the end"), rows=rows)
    return Shown(checks=checks, wrong=wrong, edges=(_no_overflow(),), tables=(table,))


def without_update() -> tuple[str, int]:
    """What torch raises in a loop that leaves update() out, and at which attempt."""
    model, x = linear((GRADIENT,))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
    for attempt in range(1, ATTEMPTS + 1):
        optimizer.zero_grad()
        torch.autograd.backward(scaler.scale(loss(model, x)))
        try:
            scaler.step(optimizer)
        except RuntimeError as error:
            return type(error).__name__, attempt
    return "nothing", 0


def _updating() -> Loop:
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)

    def attempt(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> float:
        return one_attempt(scaler, optimizer, loss(model, x))

    return attempt


def _new_scaler() -> Loop:
    def attempt(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> float:
        scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
        torch.autograd.backward(scaler.scale(loss(model, x)))
        scaler.step(optimizer)
        return scaler.get_scale()

    return attempt


def _by_hand() -> Loop:
    scale = SCALE

    def attempt(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> float:
        torch.autograd.backward(loss(model, x) * scale)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        if all(grad.isfinite().all() for grad in grads):
            for grad in grads:
                grad.div_(scale)
            optimizer.step()
        return scale

    return attempt


LOOPS_BY_NAME: dict[str, Callable[[], Loop]] = {
    "scaler.update()": _updating,
    "a new scaler each attempt": _new_scaler,
    "scaling by hand": _by_hand,
}


def run(attempt: Loop, gradient: float = GRADIENT) -> tuple[int, float]:
    """Updates that a loop completed in 20 attempts, and its scale at the end."""
    model, x = linear((gradient,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1 / gradient)
    scale = math.nan
    for _ in range(ATTEMPTS):
        optimizer.zero_grad()
        scale = attempt(model, optimizer, x)
    return _updates(model), scale


def by_the_engine() -> tuple[int, float]:
    """The same by the engine."""
    model, x = linear((GRADIENT,))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    update = truestep.Update(model, optimizer, loss=loss, scale=truestep.LossScale.dynamic(SCALE))
    for _ in range(ATTEMPTS):
        update([x])
    return _updates(model), update.scale.value


def _updates(model: torch.nn.Module) -> int:
    """Each completed update moves the weight by exactly 1: a power of two times its inverse."""
    (weight,) = model.parameters()
    return round(-weight.item())


def _no_overflow() -> Edge:
    found = run(_new_scaler(), gradient=1.0)
    return Edge(
        where="nothing overflows at the first scale: then a scale that cannot move does no harm, and no test shows it",
        check=Check(
            what="completed of 20 at a gradient of 1, then the scale: a new scaler each attempt",
            expected=(float(ATTEMPTS), SCALE),
            measured=(float(found[0]), found[1]),
            because="2^16 fits into float32, so there is nothing to skip",
        ),
    )


LAB = Lab(
    name="without-update",
    facts=("D5",),
    topic="clocks",
    title="A scale that cannot move",
    claim="Where update() is missing, the scale never moves: an overflow repeats, and every following attempt is skipped.",
    source="torch.amp.GradScaler, whose update() moves the scale; the loop of its documentation calls it once an attempt",
    condition="the loop evades torch's own check. With one scaler, torch raises at the second step.",
    shows=shows,
    after=(
        After(lab="ninety", why="it tells a skipped attempt from an update"),
        After(lab="scaler-orders", why="it shows which orders torch refuses, this one at its second step"),
    ),
    asks=(
        Choice(
            key="forgotten",
            prompt="scaler.update() is left out of an otherwise right loop with one GradScaler. What happens?",
            answer=lambda shown: shown.measured("attempt at which torch raises, and what"),
            options=(
                Option(
                    text="torch raises at the second step",
                    value=("2", "RuntimeError"),
                    why="step() has already been called since the last update(), it says.",
                ),
                Option(
                    text="all attempts after the first overflow are skipped",
                    value=("0", "nothing"),
                    why="Tempting, and often said. It takes a loop that evades the check, with a new scaler each attempt.",
                ),
                Option(
                    text="torch raises at the first step",
                    value=("1", "RuntimeError"),
                    why="At the first step nothing is missing yet: update() comes after it.",
                ),
            ),
            eliminate=True,
        ),
        Number(
            key="halvings",
            prompt="A gradient of 2^120, float32 ending below 2^128, scale 2^16, halved at each overflow. How many of 20 "
            "attempts are completed?",
            answer=lambda shown: shown.measured("completed of 20, with update()"),
            within=0.0,
            why="2^120 x 2^7 fits, 2^120 x 2^8 does not. Nine halvings lead from 2^16 to 2^7; 11 attempts are left.",
            tempting=(
                Tempting(value=lambda _: 0.0, why="So it is where nothing moves the scale."),
                Tempting(
                    value=lambda _: ATTEMPTS - RESCUED + 1.0, why="At 2^8 the product is 2^128, the first that is too large."
                ),
            ),
        ),
        Open(
            key="purpose",
            prompt="Take scaler.update() away from the recipe. What was it for, besides the scale's value?",
            rubric=(
                "It halves the scale after an overflow, and lets it grow after a clean stretch",
                "It ends the attempt: it resets which optimizers have been unscaled and stepped",
                "It belongs once after all optimizers, not once for each",
            ),
            strong="It moves the scale by what this attempt found, and resets the state by optimizer, so that unscale_ and "
            "step may be called again. With two optimizers it is still called once.",
            weak="It updates the weights.",
            follow_up="What would happen if it were called after each of two optimizers?",
        ),
    ),
)
