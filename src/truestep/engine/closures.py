"""The loss and gradient of a window again, at parameters that an optimizer tries inside its step (torch.optim.LBFGS)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from truestep.errors import GradientError


class Evaluations:
    """The closure of one step: it returns the window's loss and leaves its gradient, in original units, on the parameters.

    The first call finds both as the attempt left them; each later one asks `again` for (loss, whether the gradient is finite).
    A loss or gradient that is not finite is a GradientError, which leaves the step, and everything is as before it.
    """

    def __init__(self, loss: float, again: Callable[[], tuple[float, bool]]) -> None:
        self._loss, self._again = loss, again
        self._calls = 0

    def __call__(self) -> Tensor:
        """The loss at the present parameters."""
        if self._calls:
            self._loss, finite = self._again()
            if not (finite and math.isfinite(self._loss)):
                raise GradientError(
                    f"evaluation {self._calls + 1} of this step found a loss of {self._loss:g}"
                    + ("" if finite else " and a gradient that is not finite"),
                    hint="the optimizer went too far: lower its learning rate, or use line_search_fn='strong_wolfe'",
                    evaluation=self._calls + 1,
                    loss=self._loss,
                )
        self._calls += 1
        return torch.tensor(self._loss)
