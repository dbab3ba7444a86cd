"""An attempt by torch's scaler, in the usual order: what the engine's attempts stand beside."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import Optimizer


def one_attempt(scaler: torch.amp.GradScaler, optimizer: Optimizer, *losses: Tensor) -> float:
    """Zero, the scaled backward of each microbatch's loss, step or skip, update; returns the loss scale that is left."""
    optimizer.zero_grad()
    for loss in losses:
        torch.autograd.backward(scaler.scale(loss))
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale()
