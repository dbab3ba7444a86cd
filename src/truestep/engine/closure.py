"""What torch calls a closure: the window's loss and gradient at parameters that an optimizer tries inside its step (LBFGS)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from truestep.engine.backward import backward
from truestep.engine.gradients import multiply
from truestep.engine.parameters import trained
from truestep.engine.plan import Plan
from truestep.engine.randomness import own_random_state
from truestep.engine.recording import Recording
from truestep.errors import GradientError
from truestep.probe.buffers import Buffers
from truestep.probe.finiteness import all_finite


class WindowClosure:
    """The closure of one step: it returns the window's loss and leaves its gradient, in original units, on the parameters.

    A first call at unmoved parameters finds both as the attempt left them; every other replays the window. A loss or gradient
    that is not finite is a GradientError, which leaves the step, and everything is as before it.
    """

    def __init__(
        self, plan: Plan[Any], recording: Recording, params: Sequence[Parameter], *, scale: float, divisor: float
    ) -> None:
        self._plan, self._recording, self._params, self._scale, self._divisor = plan, recording, params, scale, divisor
        found = recording.loss()
        assert found is not None
        self._loss, self._calls, self._versions = found / divisor, 0, _versions(params)
        self._buffers = Buffers(plan.model)

    def __call__(self) -> Tensor:
        """The loss at the present parameters."""
        self._calls += 1
        if self._calls > 1 or _versions(self._params) != self._versions:
            self._loss, finite = self._replayed()
            if not (finite and math.isfinite(self._loss)):
                raise GradientError(
                    f"evaluation {self._calls} of this step found a loss of {self._loss:g}"
                    + ("" if finite else " and a gradient that is not finite"),
                    hint="the optimizer went too far: lower its learning rate, or use line_search_fn='strong_wolfe'",
                    evaluation=self._calls,
                    loss=self._loss,
                )
        return torch.tensor(self._loss, device="cpu")

    def _replayed(self) -> tuple[float, bool]:
        """The loss by a replay, and whether its gradient, which lies on the parameters afterwards, is finite."""
        store = self._plan.store
        store.clear()
        self._buffers.keep()
        values = [self._backward(index, loss) for index, loss in enumerate(self._recording.replay())]
        self._buffers.restore()
        gradients = store.gradients()
        multiply(gradients, 1.0 / (self._scale * self._divisor))
        return sum(values) / self._divisor, all_finite(gradients)

    def _backward(self, index: int, loss: Tensor) -> float:
        """Adds the gradient of one microbatch; its loss by its share, 0 where it weighs nothing."""
        shares = self._recording.shares_of(index)
        share = shares.get(None, 1.0 if shares else 0.0)  # terms come at their shares
        if not share:
            return 0.0
        backward([loss], [self._scale * share], trained(self._params))
        return share * loss.item()


def closure_of(
    plan: Plan[Any], recording: Recording, params: Sequence[Parameter], *, scale: float, divisor: float
) -> AbstractContextManager[WindowClosure | None]:
    """The closure of an optimizer that evaluates the loss again inside its step; None for any other.

    Every evaluation draws from torch's generators what the window's forwards drew, not from Python's and NumPy's, and leaves all
    of them, and the buffers, as those forwards left them.
    """
    if not plan.evaluates_again:
        return nullcontext()
    return _traceless(WindowClosure(plan, recording, params, scale=scale, divisor=divisor), plan.device)


@contextmanager
def _traceless(closure: WindowClosure, device: torch.device) -> Iterator[WindowClosure]:
    with own_random_state(device):
        yield closure


def _versions(params: Sequence[Parameter]) -> list[int]:
    return [p._version for p in params]
