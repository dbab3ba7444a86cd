"""A batch of 128 rows in microbatches: its weights by the engine, by exact arithmetic, and how far apart they may lie."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import truestep

ROWS, SIZE, LR, DIGITS = 128, 32, 0.1, 5
UNIT = 2.0**-24
"""Unit roundoff of float32."""
UPDATES = 3
MANY = 50
"""Updates in a row, each of the two ways from weights of its own."""
Microbatch = tuple[torch.Tensor, torch.Tensor]


def data(seed: int) -> Microbatch:
    """X = randn(128, 2) after the seed, and y = (x0 + x1 > 0)."""
    x = torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(seed))
    return x, (x.sum(1) > 0).float()


def made(*, weigh: bool = True) -> truestep.Update[Microbatch]:
    """Linear(2, 1) from zeros under SGD at 0.1; with `weigh` by examples, else every microbatch with a weight of its own of 1."""
    model = torch.nn.Linear(2, 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    sgd = torch.optim.SGD(model.parameters(), lr=LR)
    return truestep.Update(model, sgd, loss=loss, weight=None if weigh else lambda _: 1, check_weight=weigh)


def loss(model: torch.nn.Module, microbatch: Microbatch) -> torch.Tensor:
    """The mean binary cross entropy with logits."""
    x, y = microbatch
    return binary_cross_entropy_with_logits(model(x).squeeze(1), y)


def window(seed: int, *sizes: int) -> list[Microbatch]:
    """The rows, in microbatches of these sizes; of a single size as often as it goes."""
    x, y = data(seed)
    cuts = list(sizes) if len(sizes) > 1 else sizes[0]
    return list(zip(torch.split(x, cuts), torch.split(y, cuts), strict=True))


def weights(seed: int, *sizes: int, weigh: bool = True, updates: int = 1) -> tuple[float, ...]:
    """w after so many updates by the same rows."""
    update = made(weigh=weigh)
    for _ in range(updates):
        update(window(seed, *sizes))
    return tuple(update.weights()["weight"][0].tolist())


def verified(seed: int) -> truestep.Verification:
    """Several updates in a row, each held against the full batch from the same state."""
    return truestep.verify(made(), [window(seed, SIZE)] * UPDATES)


def exact(seed: int) -> tuple[float, ...]:
    """w after one update in float64: plain arithmetic."""
    x, y = (part.tolist() for part in data(seed))
    return tuple(
        -LR * math.fsum((0.5 - label) * row[place] for row, label in zip(x, y, strict=True)) / ROWS for place in range(2)
    )


def bound(seed: int) -> float:
    """How far the two w can lie apart: the terms are exact, their sums round, then rate and product."""
    x = data(seed)[0].abs().double()
    longest = LR * (x.sum(0) / 2 / ROWS).max().item()
    return 2 * longest * (ROWS - 1 + 2) * UNIT


def drift(seed: int) -> float:
    """How far apart the two w can be after `MANY` updates in a row.

    The loss is convex and bends by at most L = the mean of (|x|^2 + 1) / 4; at a rate of at most 2/L the exact update is no
    expansion. So the distance over the three parameters grows in each update by the roundings of both ways alone: each gradient
    is a mean of terms of at most |x| (or 1), whose sums round 127 times and all else under 16 times; then the weight rounds,
    which no update moves by more than rate x mean |x|.
    """
    x = data(seed)[0].double()
    assert ((x.square().sum(1).mean() + 1) / 4).item() * LR <= 2
    term = max(1.0, x.abs().mean(0).max().item())
    once = LR * term * (ROWS - 1 + 16) * UNIT + MANY * LR * term * UNIT
    return MANY * 2 * math.sqrt(3) * once
