"""What of a tensor is not finite, and the first input or parameter that is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from truestep.probe.tree import leaves

COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def not_finite(tensor: Tensor) -> str | None:
    """What `tensor` holds that is not finite, an infinity before a NaN; None where all is finite or it holds integers."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_meta:
        return None
    elements = _elements(tensor.detach())
    if bool(torch.isfinite(elements).all()):
        return None
    if bool(torch.isposinf(elements).any()):
        return "inf"
    return "-inf" if bool(torch.isneginf(elements).any()) else "nan"


def all_finite(tensors: Iterable[Tensor | None]) -> bool:
    """Whether every element of every tensor is finite, those that are None left out; a wait for the device for each."""
    return all(not_finite(tensor) is None for tensor in tensors if tensor is not None)


def has_nan(tensor: Tensor) -> bool:
    """Whether a NaN is among the elements of `tensor`, which holds real or complex numbers."""
    return bool(torch.isnan(_elements(tensor.detach())).any())


def first_place(tensor: Tensor) -> str | None:
    """The index of the first element of `tensor` that is not finite, such as "[1, 2]"; None where there is none to tell.

    >>> first_place(torch.tensor([[1.0, 2.0], [float("nan"), 3.0]]))
    '[1, 0]'
    """
    if tensor.layout is not torch.strided or tensor.is_nested or not tensor.dim():
        return None
    places = torch.nonzero(~torch.isfinite(tensor.detach()))
    return str(places[0].tolist()) if len(places) else None


def _elements(tensor: Tensor) -> Tensor:
    """The stored numbers, real, and in a format that every operation takes."""
    if tensor.layout is torch.sparse_coo:
        tensor = tensor._values()
    elif tensor.layout in COMPRESSED or tensor.is_nested:
        tensor = tensor.values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.float() if tensor.element_size() == 1 else tensor


def tensors(tree: Any) -> Iterator[tuple[str, Tensor]]:
    """The path of every tensor in `tree`, and the tensor; an array of NumPy's comes as a tensor that shares its memory."""
    for path, leaf in leaves(tree):
        if isinstance(leaf, Tensor):
            yield path, leaf
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc":
            yield path, torch.from_numpy(leaf)


def first_input(tree: Any) -> tuple[str, str] | None:
    """The path and value of the first array in `tree` that is not finite, such as ("['x']", "nan"); None where there is none.

    Masks are passed: -inf among finite numbers, outside of any graph, is how attention is told where not to look.
    """
    for path, tensor in tensors(tree):
        value = not_finite(tensor)
        if value is not None and not (value == "-inf" and _is_mask(tensor)):
            return path, value
    return None


def _is_mask(tensor: Tensor) -> bool:
    return not tensor.requires_grad and not has_nan(tensor)


def first_parameter(model: nn.Module) -> tuple[str, str] | None:
    """The name and value of the first parameter of `model` that is not finite; None where there is none. Frozen masks pass."""
    for name, parameter in model.named_parameters():
        value = not_finite(parameter)
        if value is not None and not (value == "-inf" and _is_mask(parameter)):
            return name, value
    return None
