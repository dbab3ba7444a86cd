"""A window of tokens of which some are scored, by the engine and by hand: one weight, which has momentum."""

from __future__ import annotations

import torch
from torch import Tensor

import truestep
from truestep.errors import WindowError

LR, MOMENTUM = 0.5, 0.5
Rows = tuple[tuple[float, int], ...]
"""Of each token its gradient, and 1 where it is scored."""
PLAIN: Rows = ((1.0, 1), (3.0, 1))
PADDING: Rows = ((5.0, 0), (7.0, 0))


class Attempted:
    """One window by the engine, after a plain one that has set its momentum going."""

    def __init__(self, window: list[Rows]) -> None:
        model, sgd = made()
        scale = truestep.LossScale.dynamic(1024.0)
        update = truestep.Update(model, sgd, loss=scored_mean, weight=lambda x: x[:, 1].sum(), scale=scale)
        update([torch.tensor(PLAIN)])
        before, velocity = model.weight.item(), sgd.state[model.weight]["momentum_buffer"].item()
        self.happened = "completed"
        try:
            outcome = update([torch.tensor(rows) for rows in window])
            if outcome.skip:
                self.happened = str(outcome.skip.reason)
        except WindowError as error:
            self.happened = type(error).__name__
        moved, gained = model.weight.item() - before, sgd.state[model.weight]["momentum_buffer"].item() - velocity
        self.gradient = (-moved / LR - MOMENTUM * velocity) if self.happened == "completed" else None
        self.changed = moved, gained, update.scale.value / 1024.0
        """How far weight and momentum moved, and the scale over the one before."""
        self.attempts = update.counts.attempts - 1
        self.completed = update.counts.completed - 1


def made() -> tuple[torch.nn.Linear, torch.optim.SGD]:
    """One weight of 0, under SGD with momentum."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)


def scored_mean(model: torch.nn.Module, x: Tensor) -> Tensor:
    """The mean over the scored tokens, 0/0 where there are none."""
    return torch.sum(model(x[:, :1])[:, 0] * x[:, 1]) / x[:, 1].sum()


def by_hand(*, at_least: float) -> float:
    """How far a loop moves the weight in a window of padding, after a plain one, if it divides by at least so much."""
    model, sgd = made()
    for rows in (PLAIN, PADDING):
        x = torch.tensor(rows)
        sgd.zero_grad()
        torch.autograd.backward(torch.sum(model(x[:, :1])[:, 0] * x[:, 1]) / x[:, 1].sum().clamp(min=at_least))
        before = model.weight.item()
        sgd.step()
    return model.weight.item() - before
