"""The full batch: the microbatches of a window as one, where they are made of tensors that can be laid end to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from truestep.probe.tree import first_of, leaves
from truestep.verification.gap import NUMPYS
from truestep.verification.subject import Full


class Unequal(Exception):
    """The microbatches cannot be laid end to end; the message says where."""


def full_of(window: list[Any]) -> Full:
    """The window with its full batch, or with what stands in the way of one."""
    try:
        return Full(window, joined(window), None, added=len(window) > 1 and _holds_number(window[0]))
    except Unequal as error:
        return Full(window, None, str(error))


def joined(window: Sequence[Any]) -> Any:
    """One microbatch of all examples: tensors joined along their first dimension, whole numbers (counts) added up.

    Tuples, NamedTuples, lists, mappings and dataclasses are joined part by part; what is equal in all microbatches (None, a
    word, a flag) is kept.

    Raises:
        Unequal: tensors of unequal lengths beyond the first dimension, or parts that are neither.

    >>> joined([(torch.zeros(2, 3), 2), (torch.ones(1, 3), 1)])[1]
    3
    """
    first = window[0]
    if len(window) == 1:
        return first
    if any(type(other) is not type(first) for other in window):
        raise Unequal(f"they are of different kinds: {', '.join(sorted({type(each).__name__ for each in window}))}")
    if isinstance(first, Tensor):
        return _tensors(window)
    if isinstance(first, Mapping):
        if any(other.keys() != first.keys() for other in window):
            raise Unequal("their mappings have different keys")
        return _made(type(first), {key: joined([each[key] for each in window]) for key in first})
    if isinstance(first, PackedSequence):
        raise Unequal("they are packed sequences, whose rows stand in an order of their own")
    if isinstance(first, (tuple, list)):
        if any(len(other) != len(first) for other in window):
            raise Unequal(f"their {type(first).__name__}s are of different lengths")
        parts = [joined(column) for column in zip(*window, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if is_dataclass(first) and not isinstance(first, type):
        return replace(first, **{each.name: joined([getattr(one, each.name) for one in window]) for each in fields(first)})
    return _words(window)


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same microbatch with every tensor in it changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return _made(type(value), {key: mapped(part, change) for key, part in value.items()})
    if isinstance(value, (tuple, list)):
        parts = [mapped(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: mapped(getattr(value, each.name), change) for each in fields(value)})
    return value


def mark_of(full: Full) -> tuple[object, ...]:
    """The same for windows of equal examples in as many microbatches, of which the first and the last have equal shapes, and for
    others all but surely not; a window without tensors is the same as itself.
    """
    examples = full.window if full.joined is None else full.joined
    found = [(path, leaf.shape, _checksum(leaf)) for path, leaf in leaves(examples) if isinstance(leaf, Tensor)]
    ends = [_first_shape(full.window[end]) for end in (0, -1)]
    return (len(full.window), *ends, *found) if found else (id(full.window),)


def _first_shape(microbatch: Any) -> tuple[int, ...] | None:
    """Of its first array; None where it has none."""
    first = first_of(microbatch)
    if not isinstance(first, Tensor):  # hardly ever: a walk takes several times as long
        first = next((leaf for _, leaf in leaves(microbatch)), None)
    return None if first is None else tuple(first.shape)


def _checksum(leaf: Tensor) -> int:
    """Of its bytes."""
    dense = leaf if leaf.layout is torch.strided else leaf.to_dense()
    if dense.dtype not in NUMPYS:
        dense = dense.detach().resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)
    return hash(dense.numpy(force=True).tobytes())


def _holds_number(microbatch: Any) -> bool:
    """Whether anything in it is added up: a whole number by itself."""
    if isinstance(microbatch, Tensor):
        return microbatch.dim() == 0 and not microbatch.is_floating_point() and microbatch.dtype is not torch.bool
    if isinstance(microbatch, Mapping):
        return any(map(_holds_number, microbatch.values()))
    if isinstance(microbatch, (tuple, list)):
        return any(map(_holds_number, microbatch))
    if is_dataclass(microbatch):
        return any(_holds_number(getattr(microbatch, each.name)) for each in fields(microbatch))
    return isinstance(microbatch, int) and not isinstance(microbatch, bool)


def _made(kind: Any, parts: dict[Any, Any]) -> Any:
    return parts if kind is dict else kind(parts)


def _tensors(window: Sequence[Tensor]) -> Tensor:
    shapes = {tuple(each.shape[1:]) for each in window}
    if all(each.dim() == 0 for each in window):
        stacked = torch.stack(list(window))
        if not stacked.is_floating_point() and stacked.dtype is not torch.bool:
            return stacked.sum()  # a count
        if bool((stacked == stacked[0]).all()):
            return window[0]
        raise Unequal("they hold single numbers that differ")
    if len(shapes) > 1 or any(each.dim() == 0 for each in window):
        lengths = ", ".join(str(tuple(each.shape)) for each in window)
        raise Unequal(f"their tensors differ beyond the first dimension: {lengths}")
    return torch.cat(list(window))


def _words(window: Sequence[Any]) -> Any:
    first = window[0]
    if isinstance(first, int) and not isinstance(first, bool):
        return sum(window)
    if getattr(first, "shape", ()) != ():
        raise Unequal(f"they hold a {type(first).__name__} each, and only tensors are laid end to end")
    if all(other is first or other == first for other in window):
        return first
    raise Unequal(f"they hold a {type(first).__name__} each, and these differ")
