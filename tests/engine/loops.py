"""Small models, data, and the loops that a careful person writes by hand: what the engine is held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from truestep.engine.gradients import Verdict, block_norm, judge

Batch = tuple[Tensor, Tensor]
OPTIMIZERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "fused momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, fused=True),
    "adamw": lambda params: torch.optim.AdamW(params, lr=1e-2),
    "fused adamw": lambda params: torch.optim.AdamW(params, lr=1e-2, fused=True),
    "fused adagrad": lambda params: torch.optim.Adagrad(params, lr=1e-2, fused=True),
}


def mlp(seed: int = 0, width: int = 8) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3))


def batch(n: int, seed: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def split(data: Batch, sizes: list[int]) -> list[Batch]:
    return list(zip(*(part.split(sizes) for part in data), strict=True))


def cross_entropy(model: nn.Module, data: Batch) -> Tensor:
    return nn.functional.cross_entropy(model(data[0]), data[1])


def poisoned(data: Batch, value: float = float("nan")) -> Batch:
    x = data[0].clone()
    x[0, 0] = value
    return x, data[1]


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    """Equal bit for bit, NaN included."""
    return len(left) == len(right) and all(
        a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
        for a, b in ((a.reshape(-1), b.reshape(-1)) for a, b in zip(left, right, strict=True))
    )


def optimizer_state(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Every tensor of the optimizer's state, in order, as copies."""
    return [value.detach().clone() for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


def by_hand(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    window: list[Any],
    loss: Callable[[nn.Module, Any], Tensor] = cross_entropy,
    weights: Sequence[float] | None = None,
    dtype: torch.dtype | None = None,
) -> None:
    """One effective update as a careful person writes it: each mean at its share of the examples, or of `weights`."""
    weights = [len(data[0]) for data in window] if weights is None else weights
    optimizer.zero_grad()
    for data, weight in zip(window, weights, strict=True):
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            value = loss(model, data)
        (value.float() * (weight / sum(weights))).backward()
    optimizer.step()


def everything(update: Any) -> list[Tensor]:
    """Every tensor that training changes: parameters, buffers and the optimizers' states, as copies."""
    states = [state for optimizer in update.optimizers for state in optimizer_state(optimizer)]
    return weights(update.model) + [b.detach().clone() for b in update.model.buffers()] + states


def judged(gradients: list[Tensor], unit: float) -> Verdict:
    """What an attempt finds of `gradients`, the norm read at once."""
    return judge(gradients, unit, norm=float(block_norm(gradients)))
