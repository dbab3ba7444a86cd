"""How often an attempt rounds, and in which format: the results of every operation that it ran, counted as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True, kw_only=True)
class Roundings:
    """What one attempt rounds to."""

    format: torch.dtype
    """The coarsest that an operation put out."""
    count: float
    """Operations that put it out, forward and backward, for one microbatch: no way to a gradient has more of them on it."""

    @property
    def name(self) -> str:
        """Of the format, as torch writes it: "float16"."""
        return str(self.format).removeprefix("torch.")

    @property
    def unit(self) -> float:
        """Unit roundoff: half the distance from 1 to the next number, 2^-11 for float16."""
        return torch.finfo(self.format).eps / 2

    @property
    def smallest(self) -> float:
        """The smallest number above zero: what is below half of it becomes zero."""
        return torch.finfo(self.format).smallest_normal * torch.finfo(self.format).eps


def run(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Any:
    """The operation itself.

    A number that torch holds as a tensor without dimensions reaches a dispatch mode as a bare number, and an operation of one
    tensor does not take it back: it becomes a tensor again, a double as it was.
    """
    if len(args) == 1 and isinstance(args[0], (int, float)) and str(func._schema.arguments[0].type) == "Tensor":
        args = (torch.tensor(args[0], dtype=torch.float64 if isinstance(args[0], float) else None),)
    return func(*args, **(kwargs or {}))


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Inside, counts the results of operations by their format; views and copies round nothing and are left out.

    Costs a few microseconds an operation, so it stands around one attempt and not around all.
    """

    def __init__(self, paused: Callable[[], bool] = lambda: False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found: Counter[torch.dtype] = Counter()
        self._paused = paused
        """Asked at every operation: those of an optimizer's step come after the gradient."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs the operation and notes what came of it."""
        found = run(func, args, kwargs)
        if not func.is_view and func not in _EXACT and not self._paused():
            first = found[0] if isinstance(found, (tuple, list)) and found else found
            if isinstance(first, Tensor) and first.is_floating_point():
                self._found[first.dtype] += 1
        return found

    def seen(self, *, microbatches: int) -> Roundings:
        """The coarsest format that was seen; float32 where nothing was."""
        coarsest = max(self._found, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)
        return Roundings(format=coarsest, count=max(1.0, self._found[coarsest] / microbatches))


_EXACT: frozenset[Callable[..., Any]] = frozenset(
    {torch.ops.aten.clone.default, torch.ops.aten.detach.default, torch.ops.aten.zeros_like.default}
)
