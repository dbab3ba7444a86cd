"""Models and updates to inspect, each with a peculiarity that an inspection has to survive or to measure."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from truestep.engine.policy import Policy
from truestep.engine.scale import LossScale
from truestep.engine.update import Update


class Pulled(nn.Module):
    """A linear layer whose output's gradient is what the microbatch says: loss = sum(output * pull)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(2, width)

    def forward(self, inputs: Tensor, pull: Tensor) -> Tensor:
        return (self.layer(inputs).float() * pull).sum()


def pulled(
    sigma: float, *, policy: str = "fp16", scale: LossScale | None = None, count: int = 64, factors: tuple[float, ...] = (1.0,)
) -> tuple[Update[Any], list[Any]]:
    """An update whose activation gradients are N(0, sigma * factor) by construction, count^2 of them, and a window by factor."""
    torch.manual_seed(0)
    model = Pulled(count)
    windows = [[(torch.randn(count, 2), torch.randn(count, count) * sigma * factor)] for factor in factors]
    update: Update[Any] = Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, microbatch: model(*microbatch),
        loss_is="share",
        policy=policy,
        scale=scale,
    )
    return update, windows


class Odd(nn.Module):
    """Sparse embedding, layer called twice, tied weights, tuple output, in-place ReLU, a branch without gradients, frozen layer,
    batch statistics and dropout, in one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6, sparse=True)
        self.twice = nn.Linear(6, 6)
        self.relu = nn.ReLU(inplace=True)
        self.recurrent = nn.GRU(6, 6, batch_first=True)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.watcher = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.dropout = nn.Dropout(0.25)
        self.head, self.tied = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.tied.weight = self.head.weight

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.relu(self.twice(self.twice(self.embedding(inputs))))
        x, _ = self.recurrent(x)
        x = self.frozen(x).mean(1)
        with torch.no_grad():
            self.watcher(x)
        out: Tensor = self.tied(self.head(self.dropout(self.norm(x))))
        return out


def odd(policy: str | Policy = "bf16") -> tuple[Update[Any], list[list[Tensor]]]:
    """An update of `Odd` with two optimizers' worth of settings, and three windows of two microbatches."""
    torch.manual_seed(1)
    model = Odd()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
    update: Update[Any] = Update(
        model,
        optimizer,
        loss=lambda model, microbatch: model(microbatch).float().square().mean(),
        policy=policy,
        check_weight=False,
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2),
    )
    return update, [[torch.randint(11, (4, 3)), torch.randint(11, (2, 3))] for _ in range(3)]
