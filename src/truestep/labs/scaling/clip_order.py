"""Clipping before unscaling clips the wrong number."""

from __future__ import annotations

import math

import torch
from torch.nn.utils import clip_grad_norm_

from truestep.labs.asking.ask import Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import ROUNDINGS, TORCH_ADDS, Vector, by_the_engine, linear, loss
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Shown, Table, Wrong

SETTINGS: dict[str, tuple[Vector, float, float]] = {
    "A1": ((0.2,), 1024.0, 1.0),
    "A2": ((2.0,), 100.0, 1.0),
    "A3": ((3.0, 4.0), 100.0, 2.0),
}
"""Of each row of the lessons the true gradient, the loss scale, the limit of the norm."""
STAGES = ("order", "stored", "first operation", "second operation", "norm")


def shows() -> Shown:
    """Each setting by the engine, and by a loop by hand in either order."""
    checks, wrong, traces = [], [], []
    for row, (gradient, scale, limit) in SETTINGS.items():
        norm, engine = math.hypot(*gradient), by_the_engine(gradient, scale, limit)
        check = Check(
            what=f"{row}: gradient at the optimizer",
            expected=_cut(gradient, limit),
            measured=engine,
            within=norm * ROUNDINGS,
            because=f"unscaled first, {norm:g} is held against {limit:g}; six float32 roundings",
        )
        trace = {first: by_hand(gradient, scale, limit, first=first) for first in ("unscale", "clip")}
        reached = trace["clip"][-1]
        stored = Check(
            what=f"{row}: gradient as backward stores it",
            expected=tuple(value * scale for value in gradient),
            measured=trace["unscale"][0],
            within=norm * scale * 2 * 2.0**-24,
            because=f"{', '.join(f'{value:g}' for value in gradient)} times {scale:g}; it and the product round",
        )
        expected = tuple(value / scale for value in _cut(tuple(value * scale for value in gradient), limit))
        damage = Check(
            what=f"{row}: gradient at the optimizer, clipped while scaled",
            expected=expected,
            measured=reached,
            within=math.hypot(*expected) * (ROUNDINGS + TORCH_ADDS / (norm * scale)),
            because=f"{norm * scale:g} is held against {limit:g}, then divided by {scale:g}; torch adds 1e-6 to the norm",
        )
        short = math.hypot(*engine) / math.hypot(*reached)
        checks += [stored, check]
        wrong.append(Wrong(how="clip, then unscale", check=damage, damage=f"{short:.4g} times too small"))
        rows = tuple((f"{first} first", *stages, math.hypot(*stages[-1])) for first, stages in trace.items())
        traces.append(Table(title=f"{row}, by hand", columns=STAGES, rows=rows))
    return Shown(checks=tuple(checks), wrong=tuple(wrong), tables=tuple(traces))


def by_hand(gradient: Vector, scale: float, limit: float, *, first: str) -> tuple[Vector, Vector, Vector]:
    """The gradient as backward stored it, after the first operation, and after the second, which the optimizer gets."""
    model, x = linear(gradient)
    torch.autograd.backward(loss(model, x) * scale)
    grad = model.weight.grad
    assert grad is not None
    stages = [tuple(grad[0].tolist())]
    for operation in ("unscale", "clip") if first == "unscale" else ("clip", "unscale"):
        if operation == "unscale":
            grad.div_(scale)
        else:
            clip_grad_norm_(model.parameters(), limit)
        stages.append(tuple(grad[0].tolist()))
    return stages[0], stages[1], stages[2]


def _cut(gradient: Vector, limit: float) -> Vector:
    """The gradient, shortened to the limit if it is longer: plain arithmetic."""
    return tuple(value * min(1.0, limit / math.hypot(*gradient)) for value in gradient)


LAB = Lab(
    name="clip-order",
    facts=("A1", "A2", "A3"),
    topic="scaling",
    title="Unscale, then clip",
    claim="A clip limit is in the units of the true gradient, so the gradient is unscaled before it is clipped. "
    "Clipped while scaled, what reaches the optimizer is the limit divided by the loss scale.",
    source="torch.amp.GradScaler.unscale_, whose example unscales before it clips",
    shows=shows,
    after=(After(lab="rescued", why="it shows why a gradient is scaled at all"),),
    asks=(
        Number(
            key="right",
            prompt="The true gradient is 0.2, the loss scale 1024, the clip limit 1. What does the optimizer get?",
            answer=lambda shown: shown.measured("A1: gradient at the optimizer")[0],
            why="The stored 204.8 is unscaled to 0.2, which is under the limit: clipping leaves it alone.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.measured("A1: gradient at the optimizer, clipped while scaled")[0],
                    why="That is the stored 204.8 cut to 1, then divided by 1024: the limit was read in scaled units.",
                ),
                Tempting(
                    value=lambda _: SETTINGS["A1"][2],
                    why="The limit is the most that may pass, not what passes: 0.2 is under it.",
                ),
            ),
        ),
        Choice(
            key="direction",
            prompt="[3, 4] under scale 100 and a norm limit of 2, clipped first. What is wrong with what reaches the optimizer?",
            answer=lambda shown: _fault(shown.measured("A3: gradient at the optimizer, clipped while scaled")),
            options=(
                Option(text="its length", value="length", why="[0.012, 0.016]: right direction, norm 0.02 in place of 2."),
                Option(
                    text="its direction",
                    value="direction",
                    why="Tempting, because clipping by value would bend it. Clipping by norm multiplies all by one number.",
                ),
                Option(
                    text="nothing",
                    value="nothing",
                    why="Tempting, because the loss still falls: a step 100 times too short looks like a small learning rate.",
                ),
            ),
        ),
        Open(
            key="both",
            prompt="True norm 2, scale 100, limit 1. Give the result of both orders, say which is right and why, and write a "
            "test that tells them apart.",
            rubric=(
                "Both results: norm 1 unscaled first, 0.01 clipped first",
                "The order: unscale, then clip, because the limit is in the units of the true gradient",
                "A test with a known gradient, longer than the limit, that asserts what reaches the optimizer",
            ),
            strong="Unscaled first, 2 is cut to 1. Clipped first, 200 is cut to 1 and divided to 0.01. With SGD at rate 1 from a "
            "weight of 0 and a loss whose gradient is 2, I assert that the weight is -1 after one update.",
            weak="Unscale first, as the notes say.",
            follow_up="Which known gradient would pass your test in either order?",
        ),
    ),
)


def _fault(reached: Vector) -> str:
    """What separates a gradient from A3's right one, as it was measured."""
    true, _, limit = SETTINGS["A3"]
    cosine = sum(map(float.__mul__, true, reached)) / (math.hypot(*true) * math.hypot(*reached))
    length = abs(math.hypot(*reached) / limit - 1) > TORCH_ADDS
    return "direction" if cosine < 1 - TORCH_ADDS else "length" if length else "nothing"
