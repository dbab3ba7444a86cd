"""A digest of values: tensors, numbers, texts, and what is built of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from truestep.errors import TaskError


class _Hash(Protocol):
    def update(self, data: Any, /) -> None: ...


def digest(value: Any) -> str:
    """SHA-256 of `value` in hexadecimal: of its bytes, shapes and types, on whatever device it lies.

    Values are tensors, arrays, numbers, texts, bytes, None, and sequences, iterators and mappings of them.

    Raises:
        TaskError: anything else, whose written form need not be the same tomorrow.

    >>> digest([1, "a"]) == digest([1, "a"]) != digest([1, "b"])
    True
    """
    state = hashlib.sha256()
    _feed(state, value)
    return state.hexdigest()


def _feed(state: _Hash, value: Any) -> None:
    """Each value goes in behind its kind and its length, so that no two values have one form."""
    if isinstance(value, Tensor):
        _head(state, "tensor", value.dtype, tuple(value.shape))
        state.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    elif value is None or isinstance(value, (bool, int, float, complex, str)):
        _head(state, type(value).__name__, repr(value))
    elif isinstance(value, bytes):
        _head(state, "bytes", len(value))
        state.update(value)
    elif isinstance(value, Mapping):
        _head(state, "mapping", len(value))
        for key in value:
            _feed(state, key)
            _feed(state, value[key])
    elif isinstance(value, (list, tuple, Iterator)):
        items = 0
        for items, item in enumerate(value, start=1):  # noqa: B007 - the count goes in after them: an iterator has no length
            _feed(state, item)
        _head(state, "items", items)
    elif hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        _array(state, np.asarray(value))
    else:
        raise TaskError(
            f"a {type(value).__name__} has no digest",
            hint="give the task a digest() of its own: SHA-256 over the data of all splits",
            found=type(value).__name__,
        )


def _array(state: _Hash, array: np.ndarray[Any, np.dtype[Any]]) -> None:
    if array.dtype.hasobject:
        _head(state, "objects", array.shape)
        _feed(state, array.ravel().tolist())
    else:
        _head(state, "array", array.dtype.str, array.shape)
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _head(state: _Hash, *words: object) -> None:
    state.update("\x1f".join(map(str, words)).encode("utf-8", "surrogatepass") + b"\x1e")
