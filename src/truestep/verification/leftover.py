"""Catches what `.grad` still holds when a window's own first gradient is added to it: what was not zeroed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from truestep.pages.words import counted, percent, significant


class Leftover:
    """Inside, keeps what the gradient of each parameter is added to for the first time, where that is not 0.

    A loop may zero gradients at either end of its window: it is at the first backward that nothing may be left.
    """

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = parameters
        self._handles: dict[str, Any] = {}
        self.gradients: dict[str, Tensor] = {}
        """As they were stored: nobody has divided what is left of an attempt that was skipped."""

    def __enter__(self) -> Leftover:
        """Hooks on."""
        for name, p in self._parameters.items():
            if p.grad is not None:  # nothing is left of what holds nothing
                self._handles[name] = p.register_hook(self._first(name, p))  # type: ignore[no-untyped-call]  # torch's
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Hooks off."""
        for handle in self._handles.values():
            handle.remove()

    @property
    def readable(self) -> Mapping[str, Tensor] | None:
        """What is left, where it is finite; None where nothing is, or something of it is not finite."""
        return self.gradients if self.gradients and all(map(math.isfinite, self._norms())) else None

    def words(self, *, attempt: int, arrived: float, scale: float | None) -> str | None:
        """A note; None where nothing was left. `arrived` is the norm of what the optimizer was given."""
        if not self.gradients:
            return None
        norm = math.hypot(*self._norms())
        share = norm / (scale or 1.0) / arrived if arrived > 0 else math.nan
        beside = "" if scale in (None, 1.0) else f" over the loss scale, {scale:g}"
        size = f": {percent(share, 2)} of what arrived{beside}" if math.isfinite(share) else ""
        return (
            f"gradients were not zeroed: in attempt {attempt}, .grad of {len(self.gradients)} of"
            f" {counted(len(self._parameters), 'parameter')} was not empty when the window's first gradient was added to it (norm"
            f" {significant(norm)}{size})"
        )

    def _norms(self) -> list[float]:
        return [float(torch.linalg.vector_norm(gradient.double())) for gradient in self.gradients.values()]

    def _first(self, name: str, p: Parameter) -> Callable[[Tensor], None]:
        def first(_gradient: Tensor) -> None:
            self._handles.pop(name).remove()  # the gradients that follow are added to the window's own
            if p.grad is not None and bool(p.grad.any()):
                self.gradients[name] = p.grad.detach().to_dense().clone() if p.grad.is_sparse else p.grad.detach().clone()

        return first
