"""One effective update in float16, stage by stage, as a real run had it: an attempt that completes, and one that overflows."""

from __future__ import annotations

import math
from typing import Any

import torch

import truestep

SCALE, LIMIT, RATE = 1024.0, 2.0, 0.5
WINDOWS = {"finite": ((2.0, 6.0), (4.0, 2.0)), "overflow": ((2.0, 6.0), (400.0, 2.0))}
"""Of each attempt the gradients of its microbatches. The first has the mean [3, 4]; the second leaves float16 once scaled."""
INTERVAL = 1
"""Completed attempts until the scale grows: so that its update is seen to do something."""
Window = tuple[tuple[float, ...], ...]
Stage = dict[str, Any]


def one_update() -> dict[str, Any]:
    """The stages of both attempts."""
    attempts = {name: stages(window) for name, window in WINDOWS.items()}
    return {"scale": SCALE, "limit": LIMIT, "rate": RATE, "microbatches": 2, "attempts": attempts}


def stages(window: Window) -> list[Stage]:
    """Gradient, scale, weights, counts and learning rate after each stage; a number that is not finite as its word.

    The engine unscales and clips by one factor, just before the step. So the gradient between the two is that of a second run,
    which clips nothing; both are read where the optimizer gets them.
    """
    update, reached = _built(truestep.ClipNorm(LIMIT))
    seen = [_state(update, "zero")]
    with update.attempt(total=len(window)) as attempt:
        for number, gradient in enumerate(window, start=1):
            with attempt.autocast():
                output = update.model(torch.tensor([gradient]))
                loss = output.mean()
            ran_in = str(output.dtype).removeprefix("torch.")
            seen.append(_state(update, "forward", microbatch=number, ran_in=ran_in, loss=loss.item()))
            attempt.backward(loss, weight=1, examples=1)
            seen.append(_state(update, "backward", microbatch=number))
        before = _state(update, "before")
    return seen + _conclusion(before, _state(update, "after"), attempt.outcome, _unclipped(window), reached)


def _conclusion(
    before: Stage, after: Stage, outcome: truestep.Outcome, unclipped: list[list[float]], reached: list[list[float]]
) -> list[Stage]:
    """From unscaling to the clock. Before the step all is as it was before; after it each stage takes what it changed."""
    unscaled = {"gradient": unclipped[0], "scaled": False} if outcome.completed else {}
    at_optimizer = {"gradient": reached[0], "scaled": False} if outcome.completed else {"gradient": None}
    reason = None if outcome.skip is None else str(outcome.skip.reason)
    unscaled |= {"norm": outcome.grad_norm, "completed": outcome.completed, "reason": reason}
    clipped = unscaled | at_optimizer | {"norm": outcome.grad_norm_clipped}
    stepped = clipped | {"weights": after["weights"]} | {name: after[name] for name in ("attempts", "updates", "skips")}
    rescaled = stepped | {"scale": outcome.next_loss_scale, "gradient": None}
    ticked = rescaled | {name: after[name] for name in ("ticks", "rate")}
    changes = {
        "unscale": unscaled | {"completed": None, "reason": None},
        "check": unscaled,
        "clip": clipped,
        "step": stepped,
        "scale update": rescaled,
        "clock": ticked,
    }
    return [before | change | {"name": name} for name, change in changes.items()]


def _state(update: truestep.Update[Any], name: str, **more: Any) -> Stage:
    """All that is shown of an update while an attempt is open, whose gradients are scaled, or between two."""
    counts = update.counts
    return {
        "name": name,
        "microbatch": None,
        "ran_in": None,
        "loss": None,
        "gradient": _gradient(update),
        "scaled": True,
        "norm": None,
        "completed": None,
        "reason": None,
        "scale": update.scale.value,
        "weights": _weight(update)[0].tolist(),
        "attempts": counts.attempts,
        "updates": counts.completed,
        "skips": counts.skipped,
        "ticks": counts.ticks,
        "rate": update.optimizers[0].param_groups[0]["lr"],
    } | more


def _unclipped(window: Window) -> list[list[float]]:
    """What reaches the optimizer of an update that clips nothing; empty where it is skipped."""
    update, reached = _built(None)
    update([torch.tensor([gradient]) for gradient in window])
    return reached


def _built(clip: truestep.ClipNorm | None) -> tuple[truestep.Update[Any], list[list[float]]]:
    """An update from weights of 0, and a list to which each gradient goes that reaches its optimizer."""
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    update: truestep.Update[Any] = truestep.Update(
        model,
        optimizer,
        loss=lambda model, x: model(x).mean(),
        policy="fp16",
        scale=truestep.LossScale.dynamic(init=SCALE, interval=INTERVAL),
        clip=clip,
        scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda tick: 0.5**tick),
        check_weight=False,
    )
    reached: list[list[float]] = []
    optimizer.register_step_pre_hook(lambda *_: reached.append(_gradient(update) or []))
    return update, reached


def _weight(update: truestep.Update[Any]) -> torch.Tensor:
    (weight,) = update.model.parameters()
    return weight


def _gradient(update: truestep.Update[Any]) -> Any:
    grad = _weight(update).grad
    return None if grad is None else [each if math.isfinite(each) else str(each) for each in grad[0].tolist()]
