"""The state of one moment of a verification, to be returned to for a while: parameters, buffers, random state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from truestep.verification.draws import Draws


class Snapshot:
    """Parameters, buffers and random state of one moment, to be returned to for a while."""

    def __init__(self, tensors: tuple[Tensor, ...], drawn: Draws) -> None:
        with torch.no_grad():
            self._values = list(zip(tensors, torch._foreach_clone(tensors), strict=True))
        self.drawn = drawn

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside it is that moment again; afterwards it is now, whatever was written or drawn inside."""
        now, drawn = [(tensor, tensor.data) for tensor, _ in self._values], self.drawn.again()
        try:
            for tensor, values in self._values:
                tensor.data = values
            self.drawn.restore()
            yield
        finally:
            for tensor, data in now:
                tensor.data = data
            drawn.restore()
