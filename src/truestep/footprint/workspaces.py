"""What CPU kernels allocate inside of an operation: convolutions, products and LSTMs are measured, sums go by rule."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._pytree import tree_leaves, tree_map_only

from truestep.footprint.allocator import CpuAllocator

_aten = torch.ops.aten
_MATRICES = ("convolution", "convolution_backward", "mm", "addmm", "bmm", "baddbmm")
_RECURRENT = ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward")
_MEASURED = {getattr(_aten, name).default for name in (*_MATRICES, *_RECURRENT)}
_ARITHMETIC = {getattr(_aten, name).Tensor for name in ("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_")}


class Workspaces:
    """The most that each operation holds beyond what it is given and returns, for fakes on the CPU; 0 for all others.

    Into which blocks a convolution or a product of matrices reorders its tensors, and whether it unfolds them, is the choice of
    the kernel that this machine's library takes for these very shapes, strides and formats. So the operation is run, alone, on
    zeros like its fakes, once for each distinct description. Of cuDNN's workspaces, chosen by what memory is free, nothing is
    known.

    Sums, products and quotients convert an operand in another format than the result's as a whole: a bfloat16 gradient that is
    added to its float32 sum, say.

    >>> inside = Workspaces()
    >>> x, y = torch.ones(8, dtype=torch.bfloat16), torch.ones(8)
    >>> inside.bytes_of(_aten.add.Tensor, (x, y), x + y), inside.measured
    (32, 0)
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._records: dict[str, int] = {}

    @property
    def measured(self) -> int:
        """How many distinct operations were run."""
        return len(self._known)

    def bytes_of(self, func: Any, args: Any, out: Any) -> int:
        """Of one operation that gave `out`."""
        if func in _ARITHMETIC and out.device.type == "cpu":
            others = [arg for arg in args[:2] if isinstance(arg, Tensor) and arg.dim() and arg.dtype is not out.dtype]
            return sum(arg.numel() * out.element_size() for arg in others)
        if func not in _MEASURED or args[0].device.type != "cpu":
            return 0
        described = _described(func, args)
        if described not in self._known:
            self._known[described] = _alone(func, args)
        return self._known[described]

    def with_record(self, func: Any, args: Any, out: Any) -> Any:
        """`out`; of oneDNN's LSTM with the record for its backward as large as a run on zeros makes it: a fake's is empty."""
        if func is not _aten.mkldnn_rnn_layer.default or args[0].device.type != "cpu":
            return out
        described = _described(func, args)
        if described not in self._records:
            with unset_fake_temporarily(), torch.enable_grad(), torch.autocast("cpu", enabled=False):
                self._records[described] = func(*tree_map_only(Tensor, _zeros, args))[3].numel()
        return (*out[:3], out[3].new_empty(self._records[described]))


def _described(func: Any, args: Any) -> str:
    return repr((func, tree_map_only(Tensor, _description, args)))


def _description(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tuple(tensor.shape), tensor.stride()


def _alone(func: Any, args: Any) -> int:
    """What the allocator counts at the highest point of one run, beyond what the operation is given and returns."""
    with unset_fake_temporarily(), torch.enable_grad(), torch.autocast("cpu", enabled=False):  # oneDNN's LSTM asks for the mode
        given = tree_map_only(Tensor, _zeros, args)
        with CpuAllocator() as allocator:
            allocator.turn("forward")
            out = func(*given)
        storages = [leaf.untyped_storage() for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        returned = {storage._cdata: int(storage.nbytes()) for storage in storages}
    return max(0, allocator.phases.get("forward", 0) - sum(returned.values()))


def _zeros(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).zero_()
