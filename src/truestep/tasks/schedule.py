"""The schedule that built-in tasks share: warm up, then fall along half a cosine."""

from __future__ import annotations

import functools
import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def warmup_cosine(tick: int, *, ticks: int) -> float:
    """The factor of the learning rate after `tick` of `ticks` ticks: linear to 1, then (1 + cos) / 2 down to 0.

    >>> [round(warmup_cosine(tick, ticks=100), 3) for tick in (0, 4, 5, 52, 100, 200)]
    [0.2, 1.0, 1.0, 0.508, 0.0, 0.0]
    """
    warmup = max(1, ticks // 20)
    if tick < warmup:
        return (tick + 1) / warmup
    share = min(1.0, (tick - warmup) / max(1, ticks - warmup))
    return (1.0 + math.cos(math.pi * share)) / 2.0


def warmup_cosine_of(optimizer: Optimizer, ticks: int) -> LambdaLR:
    """The schedule of `optimizer` that follows `warmup_cosine` over `ticks` ticks."""
    return LambdaLR(optimizer, functools.partial(warmup_cosine, ticks=ticks))
