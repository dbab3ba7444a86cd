"""Counts the elements of tensors by binade and class of significand, exactly: large ones one by one, small ones together."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from truestep.inspection.bits import DOUBLE, RAW, SINGLE, TIE, Layout, Rows, bits_of, keys_of, spread_of
from truestep.inspection.patterns import HALVES, Patterns
from truestep.inspection.spread import Spread

AT_ONCE = 1 << 16
"""Elements whose bits are worked on together: what the processor's caches hold."""
SMALL = 1 << 12
"""Elements up to which a tensor waits until it is counted with others, for then the calls cost more than the elements."""


class Counting:
    """The counts of all tensors that were added."""

    def __init__(self) -> None:
        self.tensors = 0
        self._rows: dict[Layout, Rows] = {}
        self._patterns: dict[torch.dtype, Patterns] = {}
        self._waiting: list[Tensor] = []
        """Small tensors, in float32."""
        self._wait = 0
        """How many elements wait."""
        self._ends: list[tuple[float, float]] = []

    def add(self, tensor: Tensor) -> None:
        """Count every element of a tensor of any floating-point format."""
        self.tensors += 1
        tensor = tensor.detach()
        if not tensor.numel():
            return
        if tensor.numel() <= SMALL and tensor.dtype is not torch.float64:
            self._waiting.append(tensor.reshape(-1).to(torch.float32, copy=True))  # somebody may write into it
            self._wait += tensor.numel()
            if self._wait >= AT_ONCE:
                self._settle()
        elif tensor.dtype in HALVES:
            self._patterns.setdefault(tensor.dtype, Patterns(tensor.dtype)).add(tensor)
        else:
            self._add(tensor)

    def _add(self, tensor: Tensor) -> None:
        layout, rows, smallest, largest = _counted(tensor)
        if layout is SINGLE and rows[0].sum() > rows[0, TIE]:  # subnormal: float64 holds all their bits
            layout, rows, smallest, largest = _counted(tensor.double())
        if largest:
            self._ends.append((layout.value(smallest), layout.value(largest)))
        self._rows[layout] = self._rows[layout] + rows if layout in self._rows else rows

    def _settle(self) -> None:
        """Count what waits."""
        if self._waiting:
            self._add(torch.cat(self._waiting))
        self._waiting, self._wait = [], 0

    def spread(self) -> Spread:
        """All elements as they are."""
        self._settle()
        found = [spread_of(rows, layout.bias) for layout, rows in self._rows.items()]
        for each in self._patterns.values():
            rows, ends = each.rows()
            found.append(spread_of(rows, DOUBLE.bias))
            self._ends += ends
        self._patterns = {}
        smallest = min((low for low, _ in self._ends), default=None)
        largest = max((high for _, high in self._ends), default=None)
        return Spread.total([*found, Spread(bins={}, smallest=smallest, largest=largest)])


def elements(tensor: Tensor) -> Tensor:
    """The real floating-point elements of a tensor: a sparse one's values with repeated indices summed, a complex one's parts."""
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce().values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _counted(tensor: Tensor) -> tuple[Layout, Rows, int, int]:
    """The counts, and the bits of the smallest finite magnitude above 0 and of the largest; 0 where there is none."""
    found, largest, smallest = None, 0, -1
    for part in torch.split(tensor.reshape(-1), AT_ONCE):
        layout, bits = bits_of(part)
        own: Rows = torch.bincount(keys_of(bits, layout), minlength=layout.fields * RAW).cpu().numpy()
        found = own if found is None else np.add(found, own, out=found)
        low, high = _ends(bits, layout, finite=not own[(layout.fields - 1) * RAW :].any())
        if high:
            largest, smallest = max(largest, high), low if smallest < 0 else min(smallest, low)
    assert found is not None
    return layout, found.reshape(layout.fields, RAW), max(smallest, 0), largest


def _ends(bits: Tensor, layout: Layout, *, finite: bool) -> tuple[int, int]:
    """The bits of the smallest finite magnitude above 0 and of the largest; that is 0 where there is none."""
    held = bits if finite else bits[bits < layout.infinity]
    low, high = map(int, held.aminmax()) if held.numel() else (0, 0)
    if high and not low:  # a 0 becomes the largest of all
        low = int((held - 1).bitwise_and_(layout.magnitude).min()) + 1
    return low, high
