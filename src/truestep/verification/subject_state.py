"""The state of one moment of a verification, to be returned to for a while: parameters, buffers, random state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from truestep.verification.draws import Draws


class Snapshot:
    """Parameters, buffers and random state of one moment, to be returned to for a while."""

    def __init__(self, tensors: tuple[Tensor, ...], drawn: Draws) -> None:
        self._tensors, self.drawn = tensors, drawn
        self._values = [tensor.data.clone() for tensor in tensors]

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside it is that moment again; afterwards it is now, whatever was written or drawn inside."""
        now, drawn = [(tensor, tensor.data) for tensor in self._tensors], self.drawn.again()
        try:
            for tensor, values in zip(self._tensors, self._values, strict=True):
                tensor.data = values
            self.drawn.restore()
            yield
        finally:
            for tensor, data in now:
                tensor.data = data
            drawn.restore()
