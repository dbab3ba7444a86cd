"""Noticing that somebody else changed an attempt's gradients, or stepped its optimizer, before the attempt was decided."""

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
        self._closed = False
        self._knows_graph = False
        guard = weakref.ref(self)

        def before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            alive = guard()
            if alive is not None and alive._closed:
                raise StateError(
                    "the optimizer was stepped inside the attempt, with scaled gradients that nobody has checked",
                    hint="leave optimizer.step() out: leaving the block steps or skips",
                )

        for optimizer in optimizers:
            weakref.finalize(self, optimizer.register_step_pre_hook(before_step).remove)

    def demand_open_graph(self, loss: Tensor) -> None:
        """LossError for reentrant checkpoints, whose parameters a backward into given parameters never reaches.

        Looked for in the first attempt; costs nothing afterwards.
        """
        if not self._knows_graph and holds(loss, "CheckpointFunctionBackward"):
            raise LossError(
                "the model checkpoints activations with use_reentrant=True, which hides its parameters from this backward",
                hint="use torch.utils.checkpoint.checkpoint(..., use_reentrant=False)",
            )

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Inside, no step passes; StateError for a second attempt inside the first."""
        if self._closed:
            raise StateError("an attempt of this update is open already", hint="leave its with block before the next attempt")
        try:
            self._closed = True
            yield
            self._knows_graph = True
        finally:
            self._closed = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Inside, the attempt's own step passes."""
        try:
            self._closed = False
            yield
        finally:
            self._closed = True


def _versions(gradients: Sequence[Tensor | None]) -> list[int | None]:
    return [None if gradient is None else gradient._version for gradient in gradients]
