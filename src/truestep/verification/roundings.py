"""How often an attempt rounds, and in which format: every operation that it ran, counted by its result and arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from truestep.engine.policy import float32_arithmetics


class Format(NamedTuple):
    """What a result is rounded to, or the operands of a product before it."""

    unit: float
    """Unit roundoff: half the distance from 1 to the next number, 2^-11 for float16."""
    smallest: float
    """The smallest number above zero: what is below half of it becomes zero."""
    name: str
    """As torch writes it: "float16"."""

    @staticmethod
    def of(dtype: torch.dtype) -> Format:
        """Of a tensor."""
        info = torch.finfo(dtype)
        return Format(info.eps / 2, info.smallest_normal * info.eps, str(dtype).removeprefix("torch."))


FLOAT32 = Format.of(torch.float32)
_OPERANDS = {"tf32": FLOAT32._replace(unit=2.0**-11, name="tf32"), "bf16": Format.of(torch.bfloat16)}
"""What float32 operands of a product are rounded to where its arithmetic is not float32's own, whatever its result is."""


@dataclass(frozen=True, kw_only=True)
class Roundings:
    """What one attempt rounds to."""

    format: Format
    """The coarsest that an operation used."""
    count: float
    """Operations that used it, forward and backward, for one microbatch: no way to a gradient has more of them on it."""


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
        self._found: Counter[Format] = Counter()
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
                self._found[_format_of(func, first)] += 1
        return found

    def seen(self, *, microbatches: int) -> Roundings:
        """The coarsest format that was seen; float32 where nothing was."""
        coarsest = max(self._found, default=FLOAT32)
        return Roundings(format=coarsest, count=max(1.0, self._found[coarsest] / microbatches))


def _format_of(func: Any, result: Tensor) -> Format:
    """Of a float32 product, its arithmetic as set at this moment; else the format of the result."""
    kind = _PRODUCTS.get(func.overloadpacket.__name__)
    if kind is None or result.dtype is not torch.float32 or result.device.type not in ("cpu", "cuda"):
        return Format.of(result.dtype)
    return _OPERANDS.get(float32_arithmetics(result.device)[kind], FLOAT32)


_EXACT: frozenset[Callable[..., Any]] = frozenset(
    {torch.ops.aten.clone.default, torch.ops.aten.detach.default, torch.ops.aten.zeros_like.default}
)
_MATRICES = "mm addmm bmm baddbmm addbmm mv addmv dot vdot linear matmul _addmm_activation mkldnn_linear"
_MATRICES += " _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward"
_CONVOLUTIONS = "convolution convolution_overrideable convolution_backward cudnn_convolution cudnn_convolution_transpose"
_RECURRENCES = "_cudnn_rnn _cudnn_rnn_backward mkldnn_rnn_layer mkldnn_rnn_layer_backward"
_PRODUCTS = {name: kind for kind, names in enumerate((_MATRICES, _CONVOLUTIONS, _RECURRENCES)) for name in names.split()}
"""The place that `float32_arithmetics` gives to what computes each."""
