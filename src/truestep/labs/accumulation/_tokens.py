"""A window of unequal token counts: by the engine, by hand, over ranks, and by a loop that verify looks at."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import truestep
from truestep.errors import WeightError

PARTS: tuple[tuple[float, int], ...] = ((2.0, 100), (4.0, 10))
"""Of each microbatch its mean loss and the tokens it is a mean over."""
TOTAL = sum(count for _, count in PARTS)
SHARES = "what one token of each microbatch weighs"


def made() -> torch.nn.Linear:
    """One weight of 1: a token's loss is the token."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    return model


def tokens(part: tuple[float, int]) -> torch.Tensor:
    """As many tokens as the microbatch has, each with its mean loss."""
    value, count = part
    return torch.full((count, 1), value)


def loss(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The mean over the tokens, as a loss function gives it."""
    return torch.mean(model(x))


def by_the_engine(parts: Sequence[tuple[float, int]]) -> tuple[truestep.Outcome, float]:
    """The window's outcome and the gradient that moved the weight of 1 at rate 1."""
    model = made()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=1.0), loss=loss, weight=len)
    outcome = update([tokens(part) for part in parts])
    return outcome, 1 - model.weight.item()


def gradient_by_hand(parts: Sequence[tuple[float, int]]) -> float:
    """The loop of the examples: each mean loss over the number of microbatches."""
    model = made()
    for part in parts:
        torch.autograd.backward(loss(model, tokens(part)) / len(parts))
    assert model.weight.grad is not None
    return model.weight.grad.item()


def over_ranks(*, whole: bool) -> float:
    """A microbatch a rank, the gradients averaged as DDP does; divided by the count of all ranks, or by each rank's own."""
    found = []
    for part in PARTS:
        model = made()
        value = loss(model, tokens(part))
        torch.autograd.backward(value * part[1] * len(PARTS) / TOTAL if whole else value)
        assert model.weight.grad is not None
        found.append(model.weight.grad)
    return torch.stack(found).mean().item()


def named() -> str:
    """What verify says of a loop that divides by the number of microbatches."""
    model = torch.nn.Linear(3, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    def squared(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return torch.mean((model(x) - 1).square())

    def step(window: list[torch.Tensor]) -> None:
        sgd.zero_grad()
        for x in window:
            torch.autograd.backward(squared(model, x) / len(window))
        sgd.step()

    found = truestep.verify(step, [list(torch.split(torch.randn(16, 3), [12, 4]))], model=model, optimizer=sgd, loss=squared)
    return found.reading.kind if found.reading else "nothing"


def refused() -> str:
    """The error by which the engine answers a weight of 1 for means over 100 and over 10 tokens."""
    model = made()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=1.0), loss=loss, weight=lambda _: 1)
    try:
        update([tokens(part) for part in PARTS])
    except WeightError as error:
        return type(error).__name__
    return "none"
