"""One node of autograd's graph: its operation, the size of what it made, and the constant that it multiplies by."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Node = Any
"""torch.autograd.graph.Node, whose saved values are attributes that no type describes."""

LEAF = "AccumulateGrad"

ADDS = frozenset({"Add", "Sub", "Rsub", "Neg", "Stack", "Cat"})
"""Operations that join or negate."""

LAYS_OUT = frozenset(
    re.findall(
        r"\w+",
        """Alias AsStrided Clone ConstantPadNd Copy CopySlices Diagonal Expand Flip Gather Index IndexAdd IndexCopy IndexFill
        IndexPut IndexSelect MaskedFill MaskedScatter MaskedSelect Permute Repeat ReshapeAlias Roll Scatter ScatterAdd Select
        SelectScatter Slice SliceScatter Split SplitWithSizes Squeeze T Take ToCopy Transpose Unbind Unfold UnsafeSplit
        UnsafeView Unsqueeze View Where""",
    )
)
"""Operations that pick, place, cast and copy elements: each counts once or not at all."""

SUMS, MEANS = frozenset({"Sum", "Nansum"}), frozenset({"Mean"})

LINEAR = ADDS | LAYS_OUT | SUMS | MEANS | {"Mul", "Div"}
"""Operations whose gradient does not depend on the elements that they work on (Mul and Div: where the other side is constant)."""


def operation(node: Node) -> str:
    """The operation that `node` is the backward of, such as "Mean" for MeanBackward1; "" for one that PyTorch did not define.

    >>> operation(torch.ones(2, requires_grad=True).mean().grad_fn)
    'Mean'
    """
    native = re.fullmatch(r"(?:torch::autograd::)?(\w+?)Backwards?\d+|torch::autograd::(\w+?)(?:Backwards)?", node.name())
    return "" if native is None else native[1] or native[2]


def below(node: Node) -> Iterator[tuple[Node, int]]:
    """The nodes that made the inputs of `node`'s operation, each with the number of its output; none for a constant input."""
    return ((child, output) for child, output in node.next_functions if child is not None)


def numel(node: Node, output: int = 0) -> int:
    """The number of elements of an output of `node`'s operation, read off the graph alone: nothing saved is unpacked."""
    return math.prod(node._input_metadata[output].shape)


class Unread(Exception):
    """Something on the way cannot be read; its text says what."""


def saved(node: Node, name: str) -> Any:
    """What `node` saved under `name`; Unread where a hook has packed it.

    Hooks offload, compress, or run a checkpoint again; some count on being asked once. What they hold is left to backward.
    """
    packed = getattr(node, f"_raw_saved_{name}", None)
    if packed is not None and packed.unpack_hook is not None:
        raise Unread(f"a hook packed what {node.name()} saved")
    return getattr(node, f"_saved_{name}")


def packed_by_hooks(node: Node) -> bool:
    """Whether a hook holds anything that `node` saved."""
    names = (name for name in dir(node) if name.startswith("_raw_saved_"))
    return any(getattr(getattr(node, name), "unpack_hook", None) is not None for name in names)


@dataclass(frozen=True, kw_only=True)
class Constant:
    """What an operation multiplies or divides by: one number for every element that it does not remove."""

    value: float
    literal: bool = False
    """A number of Python, which does not depend on the data; PyTorch keeps it as a scalar of 64 bits."""
    rounding: float = 0.0
    """The relative precision of the format that holds it; 0 for an integer."""
    masks: bool = False
    """It has several elements, some of which may be 0."""
    waits: bool = False
    """Reading it waited for an accelerator."""


def constant(held: Any) -> Constant:
    """The number in `held`: itself, or what all elements of a tensor are that are not 0 (1 for a mask).

    1 where the elements differ: a weight of its own belongs to the element that has it. Unread where they differ and add up to 1,
    for then they average.

    >>> constant(torch.tensor([0.25, 0.0, 0.25])).value
    0.25
    """
    if not isinstance(held, Tensor):
        return Constant(value=abs(held), literal=True)
    sizes = (held.detach().byte() if held.dtype is torch.bool else held.detach().abs()).reshape(-1)
    kept = sizes[sizes != 0] if len(sizes) > 1 else sizes
    value = float(kept[0]) if len(kept) else 0.0
    if not bool((kept == value).all()):
        value = 1.0
        if math.isclose(float(kept.sum()), 1.0, rel_tol=1e-3):
            raise Unread("weights that add up to 1")
    waits = held.device.type != "cpu"
    return Constant(
        value=value,
        literal=held.dim() == 0 and held.dtype in (torch.float64, torch.int64) and not waits,
        rounding=torch.finfo(held.dtype).eps if held.dtype.is_floating_point or held.dtype.is_complex else 0.0,
        masks=len(sizes) > 1,
        waits=waits,
    )
