"""Running a window's forwards again under the random state that they had, to find out why an attempt was skipped."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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


Forward = Callable[[Any, bool], Tensor]
"""A microbatch's loss, under the policy's autocast or, if told so, in float32."""


@dataclass(frozen=True)
class Replay:
    """The forwards of one window, repeatable: each replay starts from the random state that the window started from."""

    forward: Forward
    window: Sequence[Any]
    random: RandomState

    def losses(self, *, in_float32: bool = False) -> Iterator[Tensor]:
        """The losses in their order, each with its graph; a forward happens when its loss is asked for."""
        self.random.restore()
        for microbatch in self.window:
            yield self.forward(microbatch, in_float32)
