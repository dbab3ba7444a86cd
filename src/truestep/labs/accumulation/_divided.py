"""A window of losses that are divided, or are not: by the engine, by hand, and what Adam makes of it by arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn.utils import clip_grad_norm_

import truestep
from truestep.labs.chosen import linear, loss

SMALL: tuple[float, ...] = (0.25, 0.5, 0.125, 0.375)
"""The gradients of a window's four microbatches, whose mean is 0.3125."""
N, LR, LIMIT = len(SMALL), 0.0625, 1.0
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def by_the_engine(windows: Sequence[tuple[float, ...]], optimizer: str, *, joined: bool = False, clip: bool = False) -> float:
    """How far a weight of 0 has moved down after the windows."""
    model, _ = linear((1.0,))
    limit = truestep.ClipNorm(LIMIT) if clip else None
    update = truestep.Update(model, made(optimizer, model, LR), loss=loss, clip=limit)
    for window in windows:
        update([rows(window)] if joined else [rows([gradient]) for gradient in window])
    return (-model.weight).item()


def by_hand(
    windows: Sequence[tuple[float, ...]], optimizer: str, *, divided: bool, rate: float = LR, clip: bool = False
) -> float:
    """The same by a torch loop that divides each loss, or forgets to."""
    model, _ = linear((1.0,))
    stepping = made(optimizer, model, rate)
    for window in windows:
        stepping.zero_grad()
        for gradient in window:
            value = loss(model, rows([gradient]))
            torch.autograd.backward(value / len(window) if divided else value)
        if clip:
            clip_grad_norm_(model.parameters(), LIMIT)
        stepping.step()
    return (-model.weight).item()


def adam(gradients: Sequence[float], rate: float = LR) -> float:
    """How far Adam moves a weight of 0 in steps with these gradients: plain arithmetic (Kingma & Ba 2015)."""
    first = second = moved = 0.0
    for t, gradient in enumerate(gradients, 1):
        first = BETA1 * first + (1 - BETA1) * gradient
        second = BETA2 * second + (1 - BETA2) * gradient**2
        moved += rate * (first / (1 - BETA1**t)) / (math.sqrt(second / (1 - BETA2**t)) + EPSILON)
    return moved


def made(optimizer: str, model: torch.nn.Module, rate: float) -> torch.optim.Optimizer:
    if optimizer == "SGD":
        return torch.optim.SGD(model.parameters(), lr=rate)
    return torch.optim.Adam(model.parameters(), lr=rate, betas=(BETA1, BETA2), eps=EPSILON)


def rows(gradients: Sequence[float]) -> torch.Tensor:
    return torch.tensor([[gradient] for gradient in gradients])
