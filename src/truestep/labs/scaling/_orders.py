"""Three windows by a loop whose operations stand in any order, by the engine, and the rules that orders break."""

from __future__ import annotations

import math

import torch
from torch.nn.utils import clip_grad_norm_

import truestep
from truestep.labs.chosen import linear, loss

Order = tuple[str, ...]
Left = tuple[float, ...]
OPERATIONS: Order = ("unscale", "check", "clip", "step", "scale", "schedule")
RULES = {
    ("unscale", "clip"): ("the limit is read in scaled units", (1.2 / 1024 + 0.6 / 2048, 1.6 / 1024 + 0.8 / 2048, 2048.0, 0.25)),
    ("unscale", "scale"): ("divided by the next scale: half the gradient", (1.2 + 0.075, 1.6 + 0.1, 2048.0, 0.25)),
    ("check", "step"): ("stepped by the verdict of the window before", (math.inf, math.inf, 2048.0, 0.25)),
    ("check", "scale"): ("the scale follows the verdict of the window before", (1.2 + 0.15, 1.6 + 0.2, 8192.0, 0.25)),
    ("clip", "step"): ("the optimizer has stepped: nothing is clipped", (3 + 0.15, 4 + 0.2, 2048.0, 0.25)),
    ("step", "schedule"): ("each step has the next one's learning rate", (0.6 + 0.075, 0.8 + 0.1, 2048.0, 0.25)),
}
"""What has to come before what; what breaking it alone does; and what is left, by arithmetic: two weights, scale and rate."""
WINDOWS = ((3.0, 4.0), (0.3, 0.4), (1e36, 1e36))
"""Gradients: longer than the limit, shorter, and one that overflows once it is scaled."""
LIMIT, SCALE = 2.0, 1024.0


def by_hand(order: Order) -> Left:
    """Three windows by a loop with its operations in that order: what the weights moved, the scale and the rate."""
    weight, scale, rate, finite = torch.zeros(2, requires_grad=True), SCALE, 1.0, True
    for gradient in WINDOWS:
        weight.grad = None
        torch.autograd.backward((weight * torch.tensor(gradient)).sum() * scale)
        assert weight.grad is not None
        for operation in order:
            if operation == "unscale":
                weight.grad.div_(scale)
            elif operation == "check":
                finite = bool(weight.grad.isfinite().all())
            elif operation == "clip":
                clip_grad_norm_([weight], LIMIT)
            elif operation == "step" and finite:
                weight.data.sub_(weight.grad, alpha=rate)
            elif operation == "scale":
                scale = scale * 2 if finite else scale / 2
            elif operation == "schedule" and finite:
                rate /= 2
    return left(weight, scale, rate)


def by_the_engine() -> Left:
    """The same three windows by one Update."""
    model, _ = linear((0.0, 0.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    update: truestep.Update[torch.Tensor] = truestep.Update(
        model,
        optimizer,
        loss=loss,
        scale=truestep.LossScale.dynamic(init=SCALE, interval=1),
        clip=truestep.ClipNorm(LIMIT),
        scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda tick: 0.5**tick),
    )
    for gradient in WINDOWS:
        update([torch.tensor([gradient])])
    return left(model.weight[0], update.scale.value, optimizer.param_groups[0]["lr"])


def left(weight: torch.Tensor, scale: float, rate: float) -> Left:
    """What is left; a weight that is no number any more counts as infinitely far."""
    moved = [-each if math.isfinite(each) else math.inf for each in weight.tolist()]
    return (*moved, scale, rate)


def broken(order: Order) -> list[tuple[str, str]]:
    """The rules that an order breaks."""
    return [rule for rule in RULES if order.index(rule[0]) > order.index(rule[1])]


def zeroed(place: str) -> float:
    """How far a weight moves in two windows of gradients 1 and 10, zeroed at that place."""
    weight = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    for gradient in (1.0, 10.0):
        for stage in ("before the forward", "forward", "between forward and backward", "backward", "after the backward", "step"):
            if stage == place:
                optimizer.zero_grad()
            elif stage == "forward":
                output = weight * gradient
            elif stage == "backward":
                torch.autograd.backward(output)
            elif stage == "step":
                optimizer.step()
        if place == "after the step":
            optimizer.zero_grad()
    return 0.0 - weight.item()
