"""Counts the elements of tensors of 16 bits by their patterns: one pass for each tensor, and the table of keys once."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from truestep.inspection.bits import DOUBLE, RAW, Rows, bits_of, keys_of

HALVES = (torch.bfloat16, torch.float16)
"""The formats of 16 bits."""
_PATTERNS = 1 << 15
"""Patterns of 16 bits without the sign."""


class Patterns:
    """How often each magnitude of one format of 16 bits was seen."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._counts: Tensor | None = None

    def add(self, tensor: Tensor) -> None:
        """Count every element."""
        counts = torch.bincount(tensor.reshape(-1).view(torch.int16).bitwise_and(_PATTERNS - 1), minlength=_PATTERNS)
        self._counts = counts if self._counts is None else self._counts.add_(counts)

    def rows(self) -> tuple[Rows, list[tuple[float, float]]]:
        """The counts as `DOUBLE` lays them out, and the smallest and largest finite magnitude above 0 where there are any."""
        none = np.zeros(_PATTERNS, dtype=np.int64)
        counts = none if self._counts is None else self._counts.cpu().numpy()
        seen = np.flatnonzero(counts)
        rows = np.zeros(DOUBLE.fields * RAW, dtype=np.int64)
        np.add.at(rows, _keys(self._dtype)[seen], counts[seen])
        values = _values(self._dtype)[torch.from_numpy(seen)]
        finite = values[(values > 0) & values.isfinite()]
        ends = [(float(finite[0]), float(finite[-1]))] if finite.numel() else []  # patterns rise with their values
        return rows.reshape(DOUBLE.fields, RAW), ends


def _values(dtype: torch.dtype) -> Tensor:
    return torch.arange(_PATTERNS, dtype=torch.int16).view(dtype).double()


@cache
def _keys(dtype: torch.dtype) -> Rows:
    found: Rows = keys_of(bits_of(_values(dtype))[1], DOUBLE).numpy()
    return found
