"""A window's forwards, run again under the random state that they had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from truestep.engine.randomness import TorchRandomState

Forward = Callable[[int, bool], Tensor]
"""From a microbatch's index to its loss, under the policy's autocast or, if told so, in float32."""


@dataclass(frozen=True)
class Replay:
    """The forwards of one window, repeatable: each time from the state of torch's generators that the window started from."""

    forward: Forward
    microbatches: int
    random: TorchRandomState

    def losses(self, *, in_float32: bool = False) -> Iterator[Tensor]:
        """The losses in their order, each with its graph; a forward happens when its loss is asked for."""
        self.random.restore()
        for index in range(self.microbatches):
            yield self.forward(index, in_float32)
