"""Three repairs of a clip that stands before the unscaling: one is right."""

from __future__ import annotations

import torch
from torch.nn.utils import clip_grad_norm_

from truestep.labs.asking.ask import Buckets, Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import ROUNDINGS, TORCH_ADDS, by_the_engine, linear, loss
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

GRADIENT, SCALE, LIMIT = 0.2, 1024.0, 1.0
LR, EPSILON = 1e-3, 1e-8
TINY = 1e-8
"""A gradient as small as Adam's epsilon."""
REPAIRS = "what reaches the optimizer"


def shows() -> Shown:
    """What each repair hands to the optimizer, and how far the optimizer goes."""
    right = by_the_engine((GRADIENT,), SCALE, LIMIT)[0]
    found = {factor: clipped_scaled(LIMIT * factor) for factor in (SCALE, 1.0, 1 / SCALE)}
    bare = clipped_scaled(torch.inf, unscaled_by=1.0)
    multiplied = Check(
        what="limit times scale, clipped while scaled",
        expected=GRADIENT,
        measured=found[SCALE],
        within=GRADIENT * ROUNDINGS,
        because="204.8 is held against 1024, both scaled: nothing is cut, and unscaled it is 0.2",
    )
    checks = (
        Check(
            what="unscaled first, by the engine",
            expected=GRADIENT,
            measured=right,
            within=GRADIENT * ROUNDINGS,
            because="0.2 is held against 1",
        ),
        multiplied,
    )
    wrong = (_divided(found[1 / SCALE]), _left_scaled_sgd(), _left_scaled_adam(), _left_scaled_clipped())
    rows = (
        ("unscale, clip to the limit", right, right / GRADIENT),
        ("clip to limit x scale, unscale", found[SCALE], found[SCALE] / GRADIENT),
        ("clip to the limit, unscale", found[1.0], found[1.0] / GRADIENT),
        ("clip to limit / scale, unscale", found[1 / SCALE], found[1 / SCALE] / GRADIENT),
        ("never unscale", bare, bare / GRADIENT),
    )
    table = Table(title=REPAIRS, columns=("way", "gradient", "times the true one"), rows=rows)
    return Shown(checks=checks, wrong=wrong, edges=(_adam_hides(), _stale()), tables=(table,))


def clipped_scaled(limit: float, *, gradient: float = GRADIENT, scale: float = SCALE, unscaled_by: float = SCALE) -> float:
    """The gradient of a loop that clips while scaled to `limit` and then unscales."""
    model, x = linear((gradient,))
    torch.autograd.backward(loss(model, x) * scale)
    clip_grad_norm_(model.parameters(), limit)
    assert model.weight.grad is not None
    return (model.weight.grad / unscaled_by).item()


def moved(optimizer: str, gradient: float, *, scale: float) -> float:
    """How far a weight of 0 moves in one step with a gradient that still bears the scale."""
    model, x = linear((gradient,))
    stepping: torch.optim.Optimizer = (
        torch.optim.SGD(model.parameters(), lr=LR)
        if optimizer == "SGD"
        else torch.optim.Adam(model.parameters(), lr=LR, eps=EPSILON)
    )
    torch.autograd.backward(loss(model, x) * scale)
    stepping.step()
    return (-model.weight).item()


def _divided(reached: float) -> Wrong:
    limit = LIMIT / SCALE
    check = Check(
        what="limit divided by the scale, clipped while scaled",
        expected=limit / SCALE,
        measured=reached,
        within=limit / SCALE * (ROUNDINGS + TORCH_ADDS / (GRADIENT * SCALE)),
        because="204.8 is cut to 1/1024, then divided by 1024: 1/1024 of the limit of 1/1024; torch adds 1e-6 to the norm",
    )
    return Wrong(
        how="divide the limit by the scale", check=check, damage=f"{GRADIENT / reached:.0f} times too small: twice wrong"
    )


def _left_scaled_sgd() -> Wrong:
    reached = moved("SGD", GRADIENT, scale=SCALE)
    check = Check(
        what="SGD's step with the gradient left scaled",
        expected=LR * GRADIENT * SCALE,
        measured=reached,
        within=LR * GRADIENT * SCALE * ROUNDINGS,
        because="learning rate x 0.2 x 1024",
    )
    return Wrong(
        how="leave the gradient scaled, with SGD",
        check=check,
        damage=f"{reached / moved('SGD', GRADIENT, scale=1.0):.4g} times too far",
    )


def _adam(gradient: float) -> float:
    """Adam's first step by arithmetic: both bias corrections cancel."""
    return LR * gradient / (gradient + EPSILON)


def _left_scaled_adam() -> Wrong:
    reached = moved("Adam", TINY, scale=SCALE)
    check = Check(
        what="Adam's step at a gradient of 1e-8, left scaled",
        expected=_adam(TINY * SCALE),
        measured=reached,
        within=2 * LR * ROUNDINGS,
        because="g / (g + 1e-8) with g = 1.024e-5 in place of 1e-8: epsilon no longer counts; Adam's own twelve roundings",
    )
    return Wrong(
        how="leave the gradient scaled, with Adam, where gradients are as small as its epsilon",
        check=check,
        damage=f"{reached / moved('Adam', TINY, scale=1.0):.4g} times too far",
    )


def _left_scaled_clipped() -> Wrong:
    """Two gradients that differ eight times, both under the limit, come out alike."""
    reached = tuple(clipped_scaled(LIMIT, gradient=gradient, unscaled_by=1.0) for gradient in (GRADIENT / 8, GRADIENT))
    check = Check(
        what="gradients of 0.025 and 0.2, left scaled, after a clip at 1",
        expected=(LIMIT, LIMIT),
        measured=reached,
        within=LIMIT * (ROUNDINGS + TORCH_ADDS / (GRADIENT / 8 * SCALE)),
        because="25.6 and 204.8 are both longer than 1, and both are cut to it; torch adds 1e-6 to the norm",
    )
    return Wrong(how="leave the gradient scaled, and clip", check=check, damage="whatever their length, all of it is cut")


def _adam_hides() -> Edge:
    return Edge(
        where="Adam at an ordinary gradient: the scale cancels, and the mistake does not show",
        check=Check(
            what="Adam's step at 0.2, left scaled, over the right one",
            expected=_adam(GRADIENT * SCALE) / _adam(GRADIENT),
            measured=moved("Adam", GRADIENT, scale=SCALE) / moved("Adam", GRADIENT, scale=1.0),
            within=4 * ROUNDINGS,
            because="g / (g + 1e-8) is 1 to eight digits for both",
        ),
    )


def _stale() -> Edge:
    """The right repair with a limit that was multiplied once, before the scale moved."""
    reached = clipped_scaled(0.1 * SCALE, scale=2 * SCALE, unscaled_by=2 * SCALE)
    return Edge(
        where="limit x scale, computed once: a dynamic scale has doubled since",
        check=Check(
            what="limit 0.1 multiplied by the old scale of 1024, at a scale of 2048",
            expected=0.1 * SCALE / (2 * SCALE),
            measured=reached,
            within=0.05 * (ROUNDINGS + TORCH_ADDS / (GRADIENT * 2 * SCALE)),
            because="409.6 is cut to 102.4 and divided by 2048: half the limit, so the product is made anew at each attempt",
        ),
    )


LAB = Lab(
    name="repairs",
    facts=("A8",),
    topic="scaling",
    title="Repairs that tempt",
    claim="A clip that stands before the unscaling is repaired by unscaling first, or by multiplying the limit by the scale. "
    "Dividing the limit by the scale, or leaving the gradient scaled, makes it worse.",
    source="torch.amp.GradScaler.unscale_, whose example unscales before it clips; Kingma & Ba 2015, as torch.optim.Adam writes "
    "it",
    condition="the limit is multiplied by the scale of this very attempt.",
    shows=shows,
    after=(After(lab="clip-order", why="it shows what is to be repaired"),),
    asks=(
        Buckets(
            key="sort",
            prompt="Gradient 0.2, scale 1024, limit 1. Which ways hand 0.2 to the optimizer?",
            buckets=("0.2", "too small", "too large"),
            answer=lambda shown: {row[0]: _bucket(row[2]) for row in shown.table(REPAIRS).rows},
            why={
                "unscale, clip to the limit": "both in original units: 0.2 is under 1",
                "clip to limit x scale, unscale": "both in scaled units: 204.8 is under 1024",
                "clip to the limit, unscale": "204.8 is held against 1, in different units: 1/1024",
                "clip to limit / scale, unscale": "it corrects in the wrong direction: 1/1024 of 1/1024",
                "never unscale": "204.8 itself",
            },
        ),
        Number(
            key="divided",
            prompt="The limit of 1 is divided by the scale of 1024, the scaled gradient 204.8 clipped to it, then unscaled. "
            "What reaches the optimizer?",
            answer=lambda shown: shown.measured("limit divided by the scale, clipped while scaled"),
            why="Cut to 1/1024, then divided by 1024: 9.54e-7.",
            tempting=(
                Tempting(value=lambda _: LIMIT / SCALE, why="That is the cut gradient while scaled; the unscaling still comes."),
                Tempting(value=lambda _: GRADIENT, why="It would be, had the limit been multiplied by the scale."),
            ),
        ),
        Choice(
            key="adam",
            prompt="A loop never unscales and trains well with Adam. What happens when it is switched to SGD with the same data?",
            answer=lambda shown: round(shown.measured("SGD's step with the gradient left scaled") / (LR * GRADIENT)),
            options=(
                Option(text="steps 1024 times too long", value=1024, why="SGD moves by the gradient; nothing cancels the scale."),
                Option(
                    text="the same",
                    value=1,
                    why="Tempting, since it trained. Adam divides by the gradient's own size; SGD does not.",
                ),
                Option(text="steps 1024 times too short", value=0, why="That is what unscaling once too often would do."),
            ),
        ),
        Open(
            key="review",
            prompt="A change request reads: 'clip at max_norm * scaler.get_scale(), then scaler.step'. Would you take it?",
            rubric=(
                "The result is right: limit and gradient are in the same units",
                "The scale has to be read at each attempt, and nothing may move it in between",
                "unscale_ before the clip says the same in torch's own words, and a logged norm is then in original units",
            ),
            strong="It is right as long as the scale is read in that very attempt. I would still ask for unscale_ and a plain "
            "limit: the logged norm is then in original units, and no stale product can be kept.",
            weak="No, one must never clip before unscaling.",
        ),
    ),
)


def _bucket(times: float) -> str:
    return "0.2" if abs(times - 1) < TORCH_ADDS else "too small" if times < 1 else "too large"
