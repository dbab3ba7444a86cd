"""A bfloat16 loop whose gradient errs by a chosen size at each attempt, held against the float32 full batch."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

import truestep

Microbatch = tuple[Tensor, Tensor]
ATTEMPTS, FEATURES, EXAMPLES = 8, 16, 32


def verified(
    error: Callable[[int], float], *, attempts: int = ATTEMPTS, signed: list[float] | None = None
) -> truestep.Verification:
    """A bfloat16 loop whose gradient at attempt k is 1 + error(k) times as long, against the float32 full batch.

    `signed` takes each attempt's error along the true gradient, by plain arithmetic in float64.
    """
    model = untrained()
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-8)
    attempt = 0

    def step(window: list[Microbatch]) -> None:
        nonlocal attempt
        optimizer.zero_grad()
        for microbatch in window:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                mean = loss(model, microbatch) / len(window)
            torch.autograd.backward(mean)
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(1 + error(attempt))
        attempt += 1
        if signed is not None:
            signed.append(along(model, window))
        optimizer.step()

    return truestep.verify(step, windows()[:attempts], model=model, optimizer=optimizer, loss=loss)


def along(model: nn.Module, window: list[Microbatch]) -> float:
    """How much the gradient that is stored is longer than that of the full batch in float64, along it."""
    true = copy.deepcopy(model).double()
    true.zero_grad()
    x, y = (torch.cat(each).double() for each in zip(*window, strict=True))
    torch.autograd.backward(loss(true, (x, y)))
    stored, full = (
        torch.cat([parameter.grad.double().flatten() for parameter in each.parameters() if parameter.grad is not None])
        for each in (model, true)
    )
    return (torch.dot(stored - full, full) / torch.dot(full, full)).item()


def loss(model: nn.Module, microbatch: Microbatch) -> Tensor:
    """The mean squared error, in float32."""
    x, y = microbatch
    return torch.mean((model(x).float() - y).square())


def windows() -> list[list[Microbatch]]:
    """Two microbatches an attempt, of random data with a mean that a linear model can learn."""
    generator = torch.Generator().manual_seed(5)
    found = []
    for _ in range(ATTEMPTS):
        x = torch.randn(2, EXAMPLES, FEATURES, generator=generator)
        found.append([(each, each.sum(1, keepdim=True) + 2) for each in x])
    return found


def untrained() -> nn.Module:
    model = nn.Linear(FEATURES, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model
