"""Models and losses that look across examples, or do not, verified as a loop that accumulates; BatchNorm by torch and by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import truestep

Loss = Callable[[nn.Module, Tensor], Tensor]
SPLITS = {"equal": (8, 8), "unequal": (12, 4)}
NORM_EPSILON = 1e-5
"""What BatchNorm adds to the variance."""


def squared(model: nn.Module, x: Tensor) -> Tensor:
    """Mean squared distance from 1."""
    return torch.mean((model(x) - 1).square())


def contrastive(model: nn.Module, x: Tensor) -> Tensor:
    """Each example has to find its noisy twin among those of its batch (van den Oord et al. 2018, InfoNCE)."""
    left, right = normalize(model(x), dim=1), normalize(model(x + x.flip(1) / 8), dim=1)
    return cross_entropy(left @ right.T * 2, torch.arange(len(x)))


CASES: dict[str, tuple[Callable[[], nn.Module], Loss, str]] = {
    "a linear model": (lambda: nn.Linear(3, 4), squared, "equal"),
    "LayerNorm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1)), squared, "equal"),
    "BatchNorm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), squared, "equal"),
    "one dropout": (lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1)), squared, "equal"),
    "two dropouts": (lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1)), squared, "equal"),
    "contrastive loss": (lambda: nn.Linear(3, 4), contrastive, "equal"),
    "12 and 4 averaged equally": (lambda: nn.Linear(3, 1), squared, "unequal"),
}
"""Of each case the model, the loss, and how 16 examples are split."""


def verified(name: str) -> str:
    """ "passed", or the kind of what verify names, of a loop that divides each loss by the number of microbatches."""
    build, loss, split = CASES[name]
    torch.manual_seed(1)
    model, window = build(), list(torch.split(torch.randn(16, 3), list(SPLITS[split])))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(window: list[Tensor]) -> None:
        sgd.zero_grad()
        for x in window:
            torch.autograd.backward(loss(model, x) / len(window))
        sgd.step()

    result = truestep.verify(step, [window], model=model, optimizer=sgd, loss=loss)
    named = result.coupling or result.reading
    return "passed" if result.passed else named.kind if named else "nothing named"


def normalise(numbers: Sequence[float]) -> tuple[float, ...]:
    """BatchNorm of one feature, in training, by torch."""
    norm = nn.BatchNorm1d(1, eps=NORM_EPSILON)
    return tuple(norm(torch.tensor(numbers)[:, None]).flatten().tolist())


def arithmetic(numbers: Sequence[float]) -> tuple[float, ...]:
    """The same by plain arithmetic: less the mean, over the root of the variance."""
    mean = math.fsum(numbers) / len(numbers)
    variance = math.fsum((each - mean) ** 2 for each in numbers) / len(numbers)
    return tuple((each - mean) / math.sqrt(variance + NORM_EPSILON) for each in numbers)
