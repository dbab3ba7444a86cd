"""A linear model whose gradient is chosen, and what clipping it once may lose: what many labs begin with."""

from __future__ import annotations

import torch

import truestep

Vector = tuple[float, ...]
ROUNDINGS = 6 * 2.0**-24
"""Scaled, squared, rooted, divided, multiplied, subtracted: six float32 roundings of half an ulp at most, relative."""
TORCH_ADDS = 1e-6
"""What torch's clip_grad_norm_ adds to the norm that it divides by."""


def linear(gradient: Vector) -> tuple[torch.nn.Linear, torch.Tensor]:
    """Weights of 0, and an input that is the gradient of the loss."""
    model = torch.nn.Linear(len(gradient), 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return model, torch.tensor([gradient])


def loss(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The mean of a linear model's output."""
    return torch.mean(model(x))


def by_the_engine(gradient: Vector, scale: float, limit: float) -> Vector:
    """What reached the optimizer: by SGD with learning rate 1, weights of 0 become its negative."""
    model, x = linear(gradient)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    static = truestep.LossScale.static(scale)
    truestep.Update(model, optimizer, loss=loss, scale=static, clip=truestep.ClipNorm(limit))([x])
    return tuple((-model.weight[0]).tolist())
