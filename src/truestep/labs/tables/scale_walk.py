"""One attempt in float16 at every loss scale, for gradients of three sizes: whether it completes, and the next scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

import truestep

SIZES = {"small": 2.0**-3, "large": 1.0, "huge": 16.0}
"""The gradient's size: at the scale 2^16 a small one fits float16, a large one just not, a huge one four halvings away."""
EXPONENTS = range(8, 21)
INTERVAL = 3
START = 16
ATTEMPTS = 16
ROWS = 64
"""Rows of the batch, whose mean is taken in float32: the scale reaches float16 divided by them, and fits at every exponent."""


def scale_walk() -> dict[str, Any]:
    """By size, exponent of the scale and growth count: whether the attempt completes, and both afterwards, with `update()`.

    Where the scale would leave EXPONENTS, it stays: the engine's own `min` and `max` hold it.
    """
    cells = {
        size: [[_cell(gradient, exponent, count) for count in range(INTERVAL)] for exponent in EXPONENTS]
        for size, gradient in SIZES.items()
    }
    return {
        "sizes": [{"name": name, "gradient": gradient} for name, gradient in SIZES.items()],
        "exponents": [EXPONENTS[0], EXPONENTS[-1]],
        "interval": INTERVAL,
        "start": START,
        "attempts": ATTEMPTS,
        "cells": cells,
    }


def built(scale: truestep.LossScale) -> truestep.Update[float]:
    """An update in float16 whose gradient is the number that a microbatch is."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.0),
        loss=lambda model, size: model(torch.full((ROWS, 1), size)).float().mean(),
        policy="fp16",
        scale=scale,
        weight=lambda _: ROWS,
        examples=lambda _: ROWS,
        check_weight=False,
    )


def dynamic(exponent: int = START) -> truestep.LossScale:
    """The loss scale of the picture: grows after three completed attempts in a row."""
    low, high = 2.0 ** EXPONENTS[0], 2.0 ** EXPONENTS[-1]
    return truestep.LossScale.dynamic(init=2.0**exponent, interval=INTERVAL, min=low, max=high)


def _cell(gradient: float, exponent: int, count: int) -> dict[str, Any]:
    update = built(replace(dynamic(exponent), growth_count=count))
    outcome = update([gradient])
    after = update.scale
    return {"completed": outcome.completed, "exponent": exponent_of(after), "count": after.growth_count}


def exponent_of(scale: truestep.LossScale) -> int:
    """The power of two that a scale is."""
    return len(bin(int(scale.value))) - 3
