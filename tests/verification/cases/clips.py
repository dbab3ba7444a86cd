"""A loop with a loss scale and a clip, each part of which can be left out or misplaced; in float32, for the order alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from truestep.verification.verify import verify

OPTIMIZERS = {"sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-4), "adamw": torch.optim.AdamW}
ATTEMPTS = 4


def entropy(model, microbatch):
    x, labels = microbatch
    return nn.functional.cross_entropy(model(x), labels)


def windows_of(count, *, equal, seed=0, spread=1.0):
    """Windows whose gradients differ in length, of microbatches with as many or with other numbers of rows."""
    draw = torch.Generator().manual_seed(seed)
    rows = [6] * count if equal else [3 + 5 * ((3 * k + 2) % count) for k in range(count)]
    windows = []
    for attempt in range(ATTEMPTS):
        size = 1.0 + spread * attempt
        windows.append([(size * torch.randn(n, 5, generator=draw), torch.randint(3, (n,), generator=draw)) for n in rows])
    return windows


@dataclass(kw_only=True)
class Clipped:
    """What is done in a window, and in which order; as it stands, it is right."""

    optimizer: str
    count: int
    scale: float
    equal: bool
    limit: float | None = None
    by_value: bool = False
    while_scaled: bool = False
    unscaled: bool = True
    weighed: str = "right"
    zeroed: bool = True
    seed: int = 0
    spread: float = 1.0

    def verified(self, **declared: Any):
        torch.manual_seed(self.seed)
        model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
        optimizer = OPTIMIZERS[self.optimizer](model.parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=self.scale, growth_interval=10**6)

        def clip():
            if self.limit is not None and self.by_value:
                nn.utils.clip_grad_value_(model.parameters(), self.limit)
            elif self.limit is not None:
                nn.utils.clip_grad_norm_(model.parameters(), self.limit)

        def step(window):
            if self.zeroed:
                optimizer.zero_grad()
            total = sum(len(x) for x, _ in window)
            for k, (x, labels) in enumerate(window):
                share = {
                    "right": len(x) / total,
                    "alike": 1 / len(window),
                    "not": 1.0,
                    "last": len(x) / total * (k + 1 == len(window)),
                }[self.weighed]
                scaler.scale(entropy(model, (x, labels)) * share).backward()
            if self.while_scaled:
                clip()
            if self.unscaled:
                scaler.unscale_(optimizer)
            if not self.while_scaled:
                clip()
            if self.unscaled:
                scaler.step(optimizer)
            else:
                optimizer.step()
            scaler.update(self.scale)

        windows = windows_of(self.count, equal=self.equal, seed=self.seed, spread=self.spread)
        return verify(step, windows, model=model, optimizer=optimizer, loss=entropy, scale=scaler, **declared)
