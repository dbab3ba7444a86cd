"""A loss scale carries a gradient over float16's lower end and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import truestep
from truestep.engine.outcome import Outcome
from truestep.labs.asking.ask import Choice, Column, Number, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

GRADIENT = 1e-8
SCALE = 65536.0
HALF_ULP = 2.0**-11
"""Half a step of float16, relative, for a normal number."""
SCALES = (1.0, 2.0, 4.0, 8.0, 64.0, 1024.0, 65536.0)
STAGES = "1e-8 under loss scales"


def shows() -> Shown:
    """The gradient as float16 carried it, and as it reached the optimizer, at each loss scale."""
    carried, reached, _ = attempt(GRADIENT, truestep.LossScale.static(SCALE))
    checks = (
        Check(
            what="scaled gradient, in float16",
            expected=GRADIENT * SCALE,
            measured=carried,
            within=GRADIENT * SCALE * HALF_ULP,
            because="1e-8 x 65536 = 6.5536e-4, above the smallest normal 6.1035e-05: half a float16 step, relative 2^-11",
        ),
        Check(
            what="gradient at the optimizer",
            expected=GRADIENT,
            measured=reached,
            within=GRADIENT * HALF_ULP,
            because="dividing by a power of two in float32 changes no bit: the error of storing is all there is, so 1.00e-08",
        ),
    )
    rows = []
    for scale in SCALES:
        stored, back, _ = attempt(GRADIENT, truestep.LossScale.static(scale))
        rows.append((scale, GRADIENT * scale, stored, back, abs(back / GRADIENT - 1)))
    table = Table(title=STAGES, columns=("loss scale", "true x scale", "carried", "at the optimizer", "error"), rows=tuple(rows))
    return Shown(checks=checks, wrong=(_unscaled(), _scaled_late()), edges=(_too_large(), _not_enough(rows)), tables=(table,))


def attempt(gradient: float, scale: truestep.LossScale) -> tuple[float, float, Outcome]:
    """One weight whose gradient goes through float16: as it was carried, as SGD moved by it, and the outcome."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    carried: list[float] = []

    def loss(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = model(x)
        out.register_hook(lambda grad: carried.append(grad.item()))  # type: ignore[no-untyped-call]  # torch's is untyped
        return out.float().sum() * gradient

    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    update = truestep.Update(model, optimizer, loss=loss, policy="fp16", scale=scale, allow_underflow=True)
    outcome = update([torch.ones(1, 1)])
    return carried[0], 0.0 - model.weight.item(), outcome


def _unscaled() -> Wrong:
    _, reached, outcome = attempt(GRADIENT, truestep.LossScale.none())
    check = Check(
        what="gradient at the optimizer, without a loss scale",
        expected=0.0,
        measured=reached,
        because="1e-8 is below half of float16's smallest, 2^-25 = 2.98e-08",
    )
    return Wrong(
        how="float16 without loss scaling", check=check, damage=f"nothing is learnt, and the attempt counts as {_word(outcome)}"
    )


def _scaled_late() -> Wrong:
    """Backward of the plain loss under autocast, then a multiplication of what it left."""
    model = torch.nn.Linear(1, 1, bias=False)
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(torch.ones(1, 1))
    torch.autograd.backward(out.float().sum() * GRADIENT)
    assert model.weight.grad is not None
    check = Check(
        what="gradient, multiplied by the scale after backward",
        expected=0.0,
        measured=(model.weight.grad * SCALE).item(),
        because="`.grad` is float32 under autocast, but it was computed through float16 and came as 0",
    )
    return Wrong(how="scale the gradients instead of the loss", check=check, damage="the small ones are gone before it")


def _too_large() -> Edge:
    gradient = 2.0
    _, _, outcome = attempt(gradient, truestep.LossScale.dynamic(init=SCALE))
    return Edge(
        where="a gradient of 2 under the same scale: the scaled number has an upper end too",
        check=Check(
            what="why the attempt was skipped, and the next scale",
            expected=("backward overflow", f"{SCALE / 2:g}"),
            measured=("completed" if outcome.skip is None else str(outcome.skip.reason), f"{outcome.next_loss_scale:g}"),
            because="2 x 65536 is beyond 65504 and becomes infinity; a dynamic scale halves and tries again",
        ),
    )


def _not_enough(rows: Sequence[tuple[float, ...]]) -> Edge:
    return Edge(
        where="scale 4: representable is not the same as accurate",
        check=Check(
            what="gradient at the optimizer under scale 4",
            expected=2.0**-24 / 4,
            measured=next(row[3] for row in rows if row[0] == 4.0),
            because="4e-8 is 0.67 steps of 2^-24 and is stored as one: 49 % too large",
        ),
    )


def _word(outcome: Outcome) -> str:
    return "completed" if outcome.completed else "skipped"


LAB = Lab(
    name="rescued",
    facts=("C3",),
    topic="formats",
    title="What a loss scale rescues",
    claim="A gradient of 1e-8 is 0 in float16. With the loss multiplied by 65536 the backward carries 6.554e-4, which float16 "
    "holds, and unscaled in float32 it comes back as about 1.00e-08.",
    source="Micikevicius et al. 2018; torch.amp.GradScaler",
    condition="nothing else of the backward overflows at that scale.",
    shows=shows,
    after=(After(lab="below-normal", why="it shows the 0 that is to be avoided"),),
    asks=(
        Number(
            key="scaled",
            prompt="The gradient is 1e-8, the loss scale 65536. What does the float16 backward carry?",
            answer=lambda shown: shown.measured("scaled gradient, in float16"),
            why="The chain rule is linear: a loss 65536 times larger has gradients 65536 times larger, 6.55e-4.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.measured("gradient at the optimizer, without a loss scale"),
                    why="That is without a scale. With one, the product is formed before anything is stored in float16.",
                ),
                Tempting(
                    value=lambda shown: shown.measured("gradient at the optimizer"),
                    why="That is what reaches the optimizer, after the division. In between it is 65536 times larger.",
                ),
            ),
        ),
        Column(
            key="back",
            prompt="float16's steps down there are 2^-24 = 5.96e-08. What does the optimizer get at each loss scale?",
            table=lambda shown: shown.table(STAGES),
            blank="at the optimizer",
            within=0.05,
            why="Round true x scale to the nearest step, then divide. From 1024 on the steps are fine enough to leave 1.00e-08.",
        ),
        Choice(
            key="how-large",
            prompt="Why not always take the largest scale there is?",
            answer=lambda shown: shown.measured("why the attempt was skipped, and the next scale")[0],
            options=(
                Option(
                    text="large gradients overflow, and the attempt is skipped",
                    value="backward overflow",
                    why="2 x 65536 is infinity in float16. So the scale is as large as the gradients let it be.",
                ),
                Option(
                    text="the loss itself becomes infinite in the forward",
                    value="forward overflow",
                    why="Tempting, but the forward is not scaled: the loss is multiplied after it, in float32.",
                ),
                Option(
                    text="the learning rate has to be divided by it",
                    value="completed",
                    why="Tempting, since the gradients are larger for a while. They are unscaled before the optimizer sees them.",
                ),
            ),
        ),
    ),
)
