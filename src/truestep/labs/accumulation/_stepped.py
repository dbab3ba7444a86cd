"""A small net and one window of it, stepped in float16 by microbatches and in float32 as one batch."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

import truestep

Microbatch = tuple[torch.Tensor, torch.Tensor]
ROWS, N, CLASSES = 32, 4, 5
LR = {"SGD": 0.125, "Adam": 0.001}
EPSILON = 1e-8
"""Adam's."""


class Net(torch.nn.Module):
    """A small classifier with a shift that all logits share: softmax takes it out again, so its true gradient is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(4, 8), torch.nn.Linear(8, CLASSES)
        self.shift = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits."""
        logits: torch.Tensor = self.out(torch.tanh(self.hidden(x)))
        return logits + self.shift.to(logits.dtype)


def window() -> list[Microbatch]:
    """Four microbatches of eight examples."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(ROWS, 4, generator=generator), torch.randint(0, CLASSES, (ROWS,), generator=generator)
    return list(zip(torch.split(x, ROWS // N), torch.split(y, ROWS // N), strict=True))


def loss(model: torch.nn.Module, microbatch: Microbatch) -> torch.Tensor:
    """Mean cross entropy, in float32."""
    return cross_entropy(model(microbatch[0]).float(), microbatch[1])


def made(optimizer: str, policy: str) -> truestep.Update[Microbatch]:
    """The same weights every time."""
    torch.manual_seed(0)
    model = Net()
    stepping = getattr(torch.optim, optimizer)(model.parameters(), lr=LR[optimizer])
    return truestep.Update(model, stepping, loss=loss, policy=policy)


class Stepped:
    """The weights before and after one update: accumulated in float16 by the engine, and the float32 full batch by torch."""

    def __init__(self, optimizer: str) -> None:
        self.lr = LR[optimizer]
        accumulated, plain = made(optimizer, "fp16"), made(optimizer, "fp32")
        self.before = {name: weight.clone() for name, weight in plain.weights().items()}
        assert accumulated(window()).completed
        x, y = zip(*window(), strict=True)
        torch.autograd.backward(loss(plain.model, (torch.cat(x), torch.cat(y))))
        plain.optimizers[0].step()
        self.accumulated, self.full = accumulated.weights(), plain.weights()

    def gap(self, name: str) -> float:
        """The length of the difference."""
        return float(torch.linalg.vector_norm(self.accumulated[name] - self.full[name]))

    def ways(self, name: str) -> float:
        """The largest difference of an element, in learning rates."""
        return float((self.accumulated[name] - self.full[name]).abs().max()) / self.lr

    def moved(self, name: str) -> torch.Tensor:
        """How far the full batch has moved it: under SGD the gradient times the rate."""
        return self.full[name] - self.before[name]
