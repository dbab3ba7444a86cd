"""A training of a fraction of a second: what the labs on judging compare by its losses, norms, skips and final evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import truestep

Microbatch = tuple[Tensor, Tensor]
UPDATES, BATCH, FEATURES, RATE = 40, 16, 8, 0.05
SCALE, LIMIT = 1024.0, 1.0
"""Of the float16 run and of the loop that clips while scaled: the loss scale, and that loop's limit of the norm."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What is known of a run."""

    losses: tuple[float, ...]
    """By attempt; the window's own loss before its update."""
    norms: tuple[float, ...]
    """Of the gradient at the optimizer, by completed update."""
    skipped: int
    evaluation: float
    """The loss on data that nothing was trained on, in float32."""
    weights: Tensor

    @property
    def falls(self) -> bool:
        """Whether the mean of the last five losses that are finite is below the mean of the first five."""
        finite = [loss for loss in self.losses if math.isfinite(loss)]
        return sum(finite[-5:]) < sum(finite[:5])


def trained(
    seed: int = 0, *, updates: int = UPDATES, split: int = 1, memorise: bool = False, spoil: int | None = None, **options: Any
) -> Trained:
    """A linear regression by the engine, from the same start and data for one seed, in so many attempts.

    Windows come as `split` microbatches; every `spoil`-th holds a NaN; `memorise` trains on the first alone; the rest is
    Update's.
    """
    model, windows, held_out = setting(seed)
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=RATE), loss=loss, **options)
    outcomes = []
    for number, (x, y) in enumerate(windows[:updates], start=1):
        if memorise:
            x, y = windows[0]  # noqa: PLW2901 - the window is replaced on purpose
        if spoil and number % spoil == 0:
            x = torch.full_like(x, math.nan)  # noqa: PLW2901 - likewise
        outcomes.append(update(list(zip(x.chunk(split), y.chunk(split), strict=True))))
    return Trained(
        losses=tuple(outcome.loss for outcome in outcomes if outcome.loss is not None),
        norms=tuple(outcome.grad_norm_clipped for outcome in outcomes if outcome.grad_norm_clipped is not None),
        skipped=outcomes[-1].counts.skipped,
        evaluation=evaluated(model, held_out),
        weights=_weights(model),
    )


def clipped_while_scaled(seed: int = 0, *, updates: int = UPDATES) -> Trained:
    """The same run by a float16 loop of torch's own with GradScaler that leaves out unscale_ before it clips."""
    model, windows, held_out = setting(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    norms: list[float] = []
    optimizer.register_step_pre_hook(lambda *_: norms.append(_norm(model)))
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
    losses = []
    for window in windows[:updates]:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            mean = loss(model, window)
        torch.autograd.backward(scaler.scale(mean))
        nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
        scaler.step(optimizer)
        scaler.update()
        losses.append(mean.item())
    return Trained(
        losses=tuple(losses),
        norms=tuple(norms),
        skipped=updates - len(norms),
        evaluation=evaluated(model, held_out),
        weights=_weights(model),
    )


def _norm(model: nn.Module) -> float:
    grads = [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    return float(torch.cat(grads).norm().item())


def _weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def plain(seed: int = 0) -> float:
    """The same run's evaluation by a loop of torch's own, in float32, without truestep."""
    model, windows, held_out = setting(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for window in windows:
        optimizer.zero_grad()
        torch.autograd.backward(loss(model, window))
        optimizer.step()
    return evaluated(model, held_out)


def setting(seed: int) -> tuple[nn.Linear, list[Microbatch], Microbatch]:
    """A model, its windows, and what is held out, all of that seed."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randn(FEATURES, 1, generator=generator)
    x = torch.randn(UPDATES + 8, BATCH, FEATURES, generator=generator)
    y = x @ truth + 0.5 * torch.randn(UPDATES + 8, BATCH, 1, generator=generator)
    model = nn.Linear(FEATURES, 1)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    held_out = x[UPDATES:].flatten(0, 1), y[UPDATES:].flatten(0, 1)
    return model, list(zip(x[:UPDATES], y[:UPDATES], strict=True)), held_out


def loss(model: nn.Module, microbatch: Microbatch) -> Tensor:
    """The mean squared error, in float32."""
    x, y = microbatch
    return torch.mean((model(x).float() - y).square())


def evaluated(model: nn.Module, held_out: Microbatch) -> float:
    """The loss on what was held out."""
    with torch.no_grad():
        return loss(model, held_out).item()


CANDIDATES: Mapping[str, Callable[..., Trained]] = {
    "fp32": trained,
    "bf16": partial(trained, policy="bf16"),
    "fp16": partial(trained, policy="fp16", scale=truestep.LossScale.static(SCALE)),
    "clipped while scaled": clipped_while_scaled,
    "a NaN in every fourth window": partial(trained, spoil=4),
    "one window again and again": partial(trained, memorise=True),
}
"""The baseline, two sound candidates, and three that are not."""
