"""The state of one moment of a verification, to be returned to for a while: parameters, buffers, random state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.optim import Optimizer

from truestep.engine.parameters import parameters_of
from truestep.engine.randomness import Drawn


class Snapshot:
    """Parameters, buffers and random state of one moment, to be returned to for a while."""

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        held = [*model.parameters(), *parameters_of(*optimizers), *model.buffers()]
        tensors = list({id(each): each for each in held}.values())
        with torch.no_grad():
            self._values = list(zip(tensors, torch._foreach_clone(tensors), strict=True))
        self._device = parameters_of(*optimizers)[0].device
        self.drawn = Drawn.now(self._device)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside it is that moment again; afterwards it is now, whatever was written or drawn inside."""
        now, drawn = [(tensor, tensor.data) for tensor, _ in self._values], Drawn.now(self._device)
        try:
            for tensor, values in self._values:
                tensor.data = values
            self.drawn.restore()
            yield
        finally:
            for tensor, data in now:
                tensor.data = data
            drawn.restore()
