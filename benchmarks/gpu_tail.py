"""The tail of an update on a CUDA device, above the floor of the optimizer's own pass."""

from __future__ import annotations

import gc
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import nn

from benchmarks import tail
from benchmarks.gpu import seconds_on_device
from benchmarks.table import Table

SIZES = ((1, 10), (1, 100), (1, 500), (30, 10), (30, 500), (100, 100), (100, 500), (1000, 500))
QUICK = ((1, 10),)
"""Millions of parameters, and in how many tensors."""

HOW = """
Contenders take turns in one process, in an order drawn anew each round; milliseconds by CUDA events, from an idle device to
the end of all that the tail gave it, so that the host's time is in them where the device waits for it. `floor` is the
optimizer's pass alone; the other columns are what a contender takes above it, in floors, round by round, median [5 %, 95 %]:
`floor again` is the noise. The rival under fp16 is `unscale_`, `clip_grad_norm_`, `step` and `update` of
torch.amp.GradScaler; under bf16, `clip_grad_norm_` and `step`. truestep's is the end of an attempt block, all of it. Both
sides ended with the same weights.
"""


class Sizes:
    """What update_tail.py is on the processor, on a device and for any size."""

    SCALE = 1024.0

    def __init__(self, count: int, tensors: int, device: str = "cuda") -> None:
        self.COUNT, self.TENSORS = count, tensors
        torch.manual_seed(0)
        self.GRADS = [torch.randn(count // tensors, device=device) * self.SCALE * 1e-3 for _ in range(tensors)]

    def Side(self, fused: bool) -> Side:
        """Parameters with an optimizer and a scaler."""
        return Side(self.GRADS, self.SCALE, fused=fused)


class Side:
    """Parameters, gradients, AdamW and a GradScaler."""

    def __init__(self, gradients: list[torch.Tensor], scale: float, *, fused: bool) -> None:
        torch.manual_seed(1)
        self._gradients = gradients
        self.params = [nn.Parameter(torch.randn_like(gradient)) for gradient in gradients]
        for p, gradient in zip(self.params, gradients, strict=True):
            p.grad = gradient.clone()
        self.optimizer: Any = torch.optim.AdamW(self.params, lr=1e-3, fused=fused, foreach=None if fused else True)
        self.scaler = torch.amp.GradScaler(gradients[0].device.type, init_scale=scale, growth_interval=10**9)
        self.scaler.scale(torch.ones((), device=gradients[0].device))

    def reset(self) -> None:
        """The gradients as a backward leaves them."""
        for p, gradient in zip(self.params, self._gradients, strict=True):
            assert p.grad is not None
            p.grad.copy_(gradient)

    def bare(self) -> None:
        """The floor."""
        self.optimizer.step()

    def scaler_tail(self) -> None:
        """The rival."""
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.params, 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()


def measure(*, quick: bool) -> list[tail.Row]:
    """All settings."""
    rows = []
    rounds, most_seconds = (5, 2.0) if quick else (31, 6.0)
    for millions, tensors in QUICK if quick else SIZES:
        sizes = Sizes(millions * 10**6, tensors)
        for policy, optimizer, fused in product(("fp16", "bf16"), tail.BOTH, (True, False)):
            rows.append(
                tail.row(sizes, policy, optimizer, fused=fused, rounds=rounds, most_seconds=most_seconds, timer=seconds_on_device)
            )
            gc.collect()
            torch.cuda.empty_cache()
    return rows


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    return [replace(tail.table_of(measure(quick=quick)), title="The tail of an update on the device", how=HOW)]
