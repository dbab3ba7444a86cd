"""The loss and gradient of a window again, at parameters that an optimizer tries inside its step (torch.optim.LBFGS)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from truestep.errors import GradientError


class Evaluations:
    """The closure of one step: it returns the window's loss and leaves its gradient, in original units, on the parameters.

    A first call at unmoved parameters finds both as the attempt left them; every other asks `again` for (loss, whether the
    gradient is finite). A loss or gradient that is not finite is a GradientError, which leaves the step, and everything is as
    before it.
    """

    def __init__(self, loss: float, again: Callable[[], tuple[float, bool]], *, has_moved: Callable[[], bool]) -> None:
        self._loss, self._again, self._has_moved = loss, again, has_moved
        self._calls = 0

    def __call__(self) -> Tensor:
        """The loss at the present parameters."""
        self._calls += 1
        if self._calls > 1 or self._has_moved():
            self._loss, finite = self._again()
            if not (finite and math.isfinite(self._loss)):
                raise GradientError(
                    f"evaluation {self._calls} of this step found a loss of {self._loss:g}"
                    + ("" if finite else " and a gradient that is not finite"),
                    hint="the optimizer went too far: lower its learning rate, or use line_search_fn='strong_wolfe'",
                    evaluation=self._calls,
                    loss=self._loss,
                )
        return torch.tensor(self._loss)
