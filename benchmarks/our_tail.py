"""Our contender for the tail of an update: the end of an attempt block whose backward gave gradients that were made beforehand.

It goes through the public calls alone, so that all that leaving a block does is in it: looking whether the gradients are those of
the attempt, norm and finiteness, clip, step, scale, schedule, counts and the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from truestep import ClipNorm, LossScale, Update


class Given(torch.autograd.Function):
    """A loss whose gradients are known: a backward of it puts copies of them where a training's would be."""

    @staticmethod
    def forward(context: Any, gradients: Sequence[Tensor], *params: Tensor) -> Tensor:
        """Zero."""
        context.gradients = gradients
        return params[0].new_zeros((), dtype=torch.float32)

    @staticmethod
    def backward(context: Any, *seeds: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients as they were given, whatever the loss scale."""
        return None, *(gradient.clone() for gradient in context.gradients)


class Tail:
    """An update of `params` by `optimizer`: `open` leaves an attempt before its end, `close` is the tail."""

    def __init__(
        self,
        params: Sequence[nn.Parameter],
        optimizer: torch.optim.Optimizer,
        gradients: Sequence[Tensor],
        *,
        scale: float | None,
    ) -> None:
        self._params, self._gradients = params, gradients
        self.update: Update[Any] = Update(
            nn.ParameterList(params),
            optimizer,
            loss=lambda model, batch: Given.apply(gradients, *params),
            policy="bf16" if scale is None else "fp16",
            scale=None if scale is None else LossScale.dynamic(init=scale, interval=10**9),
            clip=ClipNorm(1.0),
            check_weight=False,
        )

    def open(self) -> None:
        """An attempt up to the end of its backward."""
        self._block = self.update.attempt(total=1)
        attempt = self._block.__enter__()
        with attempt.autocast():
            loss = Given.apply(self._gradients, *self._params)
        attempt.backward(loss, 1)

    def close(self) -> None:
        """The rest of it."""
        self._block.__exit__(None, None, None)
