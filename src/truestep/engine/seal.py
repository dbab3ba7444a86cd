"""What may not happen while an attempt is open: a changed gradient, somebody else's step, an attempt or a load inside of it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.errors import LossError, StateError
from truestep.probe.graph import holds


class Seal:
    """The gradients of `params` as an attempt's own backward left them: the same tensors, at the same version.

    What a block clips, divides or zeroes is still scaled and not yet whole; an infinity that is clipped there looks finite.
    A write through `.data` is not noticed.
    """

    def __init__(self, params: Sequence[Parameter]) -> None:
        self._params = params
        self.renew()

    def renew(self) -> None:
        """What stands there now is the attempt's own."""
        self._gradients = [p.grad for p in self._params]
        self._versions = _versions(self._gradients)

    def release(self) -> None:
        """Nothing is watched any more, nor kept alive."""
        self._params, self._gradients, self._versions = [], [], []

    def demand(self) -> None:
        """StateError where a gradient is not the attempt's own any more."""
        gradients = [p.grad for p in self._params]
        if not all(map(is_, gradients, self._gradients)) or _versions(gradients) != self._versions:
            raise StateError(
                "a gradient was changed inside the attempt, where it is still scaled and not yet whole",
                hint="leave clipping to Update(clip=...), zeroing and unscaling to the attempt; add by attempt.backward",
            )


class Guard:
    """Refuses what would go past an open attempt: somebody else's step, and a graph that hides parameters from a backward."""

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self._closed: str | None = None
        self._most = 0
        guard = weakref.ref(self)

        def before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            alive = guard()
            if alive is not None and alive._closed is not None:
                raise StateError(
                    "the optimizer was stepped inside the attempt, with scaled gradients that nobody has checked",
                    hint="leave optimizer.step() out: leaving the block steps or skips",
                )

        for optimizer in optimizers:
            weakref.finalize(self, optimizer.register_step_pre_hook(before_step).remove)

    def look(self, loss: Tensor) -> None:
        """LossError for a reentrant checkpoint, looked for in the graph until a first attempt has reached parameters."""
        if not self._most:
            _demand_open_graph(loss)

    def demand_reached(self, gradients: int, loss: Tensor | None) -> None:
        """LossError for one that hides parameters only now: a window that reached fewer than another is looked at again."""
        if gradients < self._most and loss is not None:
            _demand_open_graph(loss)
        self._most = max(self._most, gradients)

    @contextmanager
    def closed(self, why: str = "an attempt of this update is open already") -> Iterator[None]:
        """Inside, no step passes; StateError for a second attempt inside the first, or inside whatever else closed it."""
        if self._closed is not None:
            raise StateError(self._closed, hint="leave its with block first")
        try:
            self._closed = why
            yield
        finally:
            self._closed = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Inside, the attempt's own step passes."""
        why, self._closed = self._closed, None
        try:
            yield
        finally:
            self._closed = why


def _demand_open_graph(loss: Tensor) -> None:
    """LossError for reentrant checkpoints, whose parameters a backward into given parameters never reaches."""
    if holds(loss, "CheckpointFunctionBackward"):
        raise LossError(
            "the model checkpoints activations with use_reentrant=True, which hides its parameters from this backward",
            hint="use torch.utils.checkpoint.checkpoint(..., use_reentrant=False)",
        )


def _versions(gradients: Sequence[Tensor | None]) -> list[int | None]:
    return [None if gradient is None else gradient._version for gradient in gradients]
