"""Random states kept and put back, and a window's forwards run again under those that they had."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class RandomState:
    """The states of torch's generators: the CPU's, and that of the model's CUDA device."""

    cpu: Tensor
    device: torch.device
    cuda: Tensor | None

    @staticmethod
    def now(device: torch.device) -> RandomState:
        """A copy of the present states."""
        cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        return RandomState(torch.get_rng_state(), device, cuda)

    def restore(self) -> None:
        """Make these the present states."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)


@contextmanager
def kept_random_states(device: torch.device) -> Iterator[None]:
    """What runs inside draws from torch's, Python's and NumPy's global generators without moving them."""
    ours, pythons, numpys = RandomState.now(device), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        ours.restore()
        random.setstate(pythons)
        np.random.set_state(numpys)


Forward = Callable[[int, bool], Tensor]
"""From a microbatch's index to its loss, under the policy's autocast or, if told so, in float32."""


@dataclass(frozen=True)
class Replay:
    """The forwards of one window, repeatable: each time from the state of torch's generators that the window started from."""

    forward: Forward
    microbatches: int
    random: RandomState

    def losses(self, *, in_float32: bool = False) -> Iterator[Tensor]:
        """The losses in their order, each with its graph; a forward happens when its loss is asked for."""
        self.random.restore()
        for index in range(self.microbatches):
            yield self.forward(index, in_float32)
