"""Windows of two and three microbatches with unequal token counts: the engine's mean by token beside the mean of means."""

from __future__ import annotations

import itertools
from typing import Any

import torch

import truestep

LOSSES = (2.0, 4.0, 9.0)
"""The mean loss of each microbatch, the same at every count."""
COUNTS = (1, 5, 10, 20, 50, 100, 200)


def token_means() -> dict[str, Any]:
    """Of each combination of counts, as "100,10", both means."""
    windows = [counts for size in (2, 3) for counts in itertools.product(COUNTS, repeat=size)]
    means = {",".join(map(str, counts)): [by_token(counts), of_means(counts)] for counts in windows}
    return {"losses": list(LOSSES), "counts": list(COUNTS), "means": means}


def by_token(counts: tuple[int, ...]) -> float:
    """The window's loss as an Update reports it, each microbatch weighted by its tokens."""
    model = _one()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=_mean, weight=len, check_weight=False)
    loss = update(_window(counts)).loss
    assert loss is not None
    return loss


def of_means(counts: tuple[int, ...]) -> float:
    """The loop of the examples: each mean loss over the number of microbatches."""
    with torch.no_grad():
        return sum(_mean(_one(), tokens).item() / len(counts) for tokens in _window(counts))


def _window(counts: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.full((count, 1), loss) for count, loss in zip(counts, LOSSES, strict=False)]


def _one() -> torch.nn.Linear:
    """One weight of 1: a token's loss is the token."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    return model


def _mean(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return torch.mean(model(tokens))
