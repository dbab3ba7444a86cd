"""Hand-written loops with one mistake each, and their repaired twins: what they are made of, and what verify has to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

SCALE = 1024.0


@dataclass
class Loop:
    """A model, its data and its tools; `verified` is what `truestep.verify` is told about the loop."""

    model: nn.Module
    windows: list[Any]
    loss: Callable[..., Any]
    dtype: torch.dtype = torch.float16
    growth: int = 10**6
    scaler: torch.amp.GradScaler = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)
    verified: dict[str, Any] = field(init=False)

    def __post_init__(self):
        self.scaler = torch.amp.GradScaler(
            "cpu", init_scale=SCALE, growth_interval=self.growth, enabled=self.dtype is torch.float16
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.verified = {"model": self.model, "optimizer": self.optimizer, "loss": self.loss, "scale": self.scaler}

    def forward(self, microbatch):
        with torch.autocast("cpu", dtype=self.dtype, enabled=self.dtype is not torch.float32):
            return self.loss(self.model, microbatch)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def finish(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()


@dataclass(frozen=True)
class Case:
    """One loop's window, and what its verification reads: a kind and a factor where it is wrong."""

    step: Callable[[list[Any]], None]
    loop: Loop
    kind: str | None
    factor: float | None = None


def squares(model, microbatch):
    x, y = microbatch
    return nn.functional.mse_loss(model(x).float(), y)


def pairs(count=4, rows=(6, 6, 6, 6), seed=1):
    """`count` windows of microbatches (x, y) with that many rows each."""
    draw = torch.Generator().manual_seed(seed)
    return [[(torch.randn(n, 6, generator=draw), torch.randn(n, 2, generator=draw) + 1) for n in rows] for _ in range(count)]


def network(*middle):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), *(middle or (nn.Tanh(),)), nn.Linear(8, 2))


def ordinary(**options):
    """The loop that most cases are a mistake in."""
    rows = options.pop("rows", (6, 6, 6, 6))
    return Loop(network(), pairs(rows=rows), squares, **options)
