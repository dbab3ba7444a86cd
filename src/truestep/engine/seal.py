"""The gradients of an open attempt, which nobody but its own backward may change."""

from __future__ import annotations

from collections.abc import Sequence

from torch.nn import Parameter

from truestep.errors import StateError


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
        self._versions = [None if gradient is None else gradient._version for gradient in self._gradients]

    def release(self) -> None:
        """Nothing is watched any more, nor kept alive."""
        self._params, self._gradients, self._versions = [], [], []

    def demand(self) -> None:
        """StateError where a gradient is not the attempt's own any more."""
        for p, gradient, version in zip(self._params, self._gradients, self._versions, strict=True):
            if p.grad is not gradient or (gradient is not None and gradient._version != version):
                raise StateError(
                    "a gradient was changed inside the attempt, where it is still scaled and not yet whole",
                    hint="leave clipping to Update(clip=...), zeroing and unscaling to the attempt; add by attempt.backward",
                )
