"""Counts the elements of tensors by binade and class of significand, exactly: large ones one by one, small ones together."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from truestep.formats import BLOCKS, FORMATS
from truestep.inspection.bits import DOUBLE, RAW, SINGLE, TIE, Layout, Rows, bits_of, keys_of, spread_of
from truestep.inspection.patterns import HALVES, Patterns
from truestep.inspection.spread import Losses, Spread, overflow_bound, split

AT_ONCE = 1 << 15
"""Elements whose bits are worked on together: what the processor's caches hold."""
SMALL = 1 << 12
"""Elements up to which a tensor waits until it is counted with others, for then the calls cost more than the elements."""
BLOCK = 32
"""Elements of an MX block."""
PER_TENSOR = ("e4m3fn", "e5m2")
"""The fp8 formats that training scales a whole tensor for."""
_LIMITS = {
    name: (int((split(limit)[1] - 1) * 2**52), held)
    for name, (limit, held) in ((name, overflow_bound(FORMATS[name])) for name in PER_TENSOR)
}
"""The fraction, of 52 bits, at which each overflows in its largest binade; and whether it still holds that one."""
_DEPTH = 40
"""Binades below its block's largest number that are told apart: every MX format flushes what is lower."""


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """One tensor."""

    layout: Layout
    rows: Rows
    blocks: Rows | None
    largest: int
    """The bits of the largest finite magnitude; 0 where there is none above 0."""
    smallest: int
    """Those of the smallest above 0; of no meaning where there is none."""


class Counting:
    """The counts of all tensors that were added: as they are, and of some relative to the largest of their block and tensor.

    A block's scale in MX is 2^(floor(log2 amax) - emax), so that its elements are stored as x / 2^floor(log2 amax) * 2^emax: a
    spread of x / 2^floor(log2 amax) tells the losses of every MX format. Exact but where that scale is below e8m0's 2^-127.
    """

    def __init__(self) -> None:
        self.tensors = 0
        self._rows: dict[tuple[Layout, tuple[int, ...]], Rows] = {}
        """By the fields of the binades that each of `PER_TENSOR` has its tensor's scale put last; () where none was told."""
        self._patterns: dict[torch.dtype, Patterns] = {}
        self._waiting: list[Tensor] = []
        """The bits of small tensors, as `SINGLE` lays them out."""
        self._wait = 0
        """How many elements wait."""
        self._blocks = np.zeros((_DEPTH + 1, RAW), dtype=np.int64)
        self._far = 0
        """Numbers that lie lower than `_DEPTH` below their block's largest."""
        self._ends: list[tuple[float, float]] = []

    def add(self, tensor: Tensor, *, blocks: bool = True) -> None:
        """Count every element of a tensor of any floating-point format.

        `blocks`: relative to the largest of their block and of the tensor too, which costs as much again.
        """
        self.tensors += 1
        tensor = tensor.detach()
        if not tensor.numel():
            return
        if blocks:
            self._add(tensor, blocks=True)
        elif tensor.numel() <= SMALL and tensor.dtype is not torch.float64:
            self._waiting.append(bits_of(tensor)[1].view(-1))
            self._wait += tensor.numel()
            if self._wait >= AT_ONCE:
                self._settle()
        elif tensor.dtype in HALVES:
            self._patterns.setdefault(tensor.dtype, Patterns(tensor.dtype)).add(tensor)
        else:
            self._add(tensor, blocks=False)

    def _add(self, tensor: Tensor, *, blocks: bool) -> None:
        found = _counted(tensor, blocks)
        if found.layout is SINGLE and found.rows[0].sum() > found.rows[0, TIE]:  # subnormal: float64 holds all their bits
            found = _counted(tensor.double(), blocks)
        group: tuple[int, ...] = ()
        if found.largest:
            self._ends.append((found.layout.value(found.smallest), found.layout.value(found.largest)))
            group = tuple(_last(found.largest, name, found.layout) for name in PER_TENSOR) if blocks else ()
        key = found.layout, group
        self._rows[key] = self._rows[key] + found.rows if key in self._rows else found.rows
        if found.blocks is not None:
            self._blocks += found.blocks
            self._far += int(found.rows[:-1].sum() - found.rows[0, TIE] - found.blocks.sum())

    def _settle(self) -> None:
        """Count what waits."""
        if self._waiting:
            self._add(torch.cat(self._waiting).view(torch.float32), blocks=False)
        self._waiting, self._wait = [], 0

    def spread(self) -> Spread:
        """All elements as they are."""
        self._settle()
        found = [spread_of(rows, layout.bias) for (layout, _), rows in self._rows.items()]
        for each in self._patterns.values():
            rows, ends = each.rows()
            found.append(spread_of(rows, DOUBLE.bias))
            self._ends += ends
        self._patterns = {}
        smallest = min((low for low, _ in self._ends), default=None)
        largest = max((high for _, high in self._ends), default=None)
        return Spread.total([*found, Spread(bins={}, smallest=smallest, largest=largest)])

    def blocks(self) -> dict[str, Losses]:
        """What each MX format loses, of the tensors that were counted by their blocks."""
        none = np.zeros((1, RAW), dtype=np.int64)
        far = none.copy()
        far[0, 0] = self._far
        relative = spread_of(np.concatenate([none, far, self._blocks, none]), _DEPTH + 2)
        tops = {name: split(Fraction(each.element.max))[0] for name, each in BLOCKS.items()}
        return {name: relative.losses(each.element, scale=tops[name]) for name, each in BLOCKS.items()}

    def per_tensor(self) -> dict[str, Losses]:
        """What each fp8 format loses where every tensor has the largest power-of-two scale at which nothing overflows."""
        found = {}
        for at, name in enumerate(PER_TENSOR):
            relative = Spread.total([spread_of(rows, last[at]) for (_, last), rows in self._rows.items() if last])
            found[name] = relative.losses(FORMATS[name], scale=split(overflow_bound(FORMATS[name])[0])[0])
        return found


def elements(tensor: Tensor) -> Tensor:
    """The real floating-point elements of a tensor: a sparse one's values with repeated indices summed, a complex one's parts."""
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce().values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _counted(tensor: Tensor, blocks: bool) -> _Counted:
    """Part by part, of whole rows where blocks are counted."""
    width = tensor.shape[-1] if tensor.dim() else 1
    whole, size = (tensor.reshape(-1, width), max(1, AT_ONCE // width)) if blocks else (tensor.reshape(-1), AT_ONCE)
    rows, relative = None, np.zeros((_DEPTH + 1, RAW), dtype=np.int64)
    largest, smallest = 0, -1
    for part in torch.split(whole, size):
        layout, bits = bits_of(part)
        keys = keys_of(bits, layout)
        own: Rows = torch.bincount(keys.view(-1), minlength=layout.fields * RAW).cpu().numpy().reshape(layout.fields, RAW)
        rows = own if rows is None else np.add(rows, own, out=rows)
        low, high = _ends(bits, layout, finite=not own[-1].any())
        if high:
            largest, smallest = max(largest, high), low if smallest < 0 else min(smallest, low)
        if blocks:
            relative += _relative(keys, layout, clean=not own[0].any() and not own[-1].any())
    assert rows is not None
    return _Counted(layout=layout, rows=rows, blocks=relative if blocks else None, largest=largest, smallest=smallest)


def _ends(bits: Tensor, layout: Layout, *, finite: bool) -> tuple[int, int]:
    """The bits of the smallest finite magnitude above 0 and of the largest; that is 0 where there is none."""
    held = bits if finite else bits[bits < layout.infinity]
    low, high = map(int, held.aminmax()) if held.numel() else (0, 0)
    if high and not low:  # a 0 becomes the largest of all
        low = int((held - 1).bitwise_and_(layout.magnitude).min()) + 1
    return low, high


def _relative(keys: Tensor, layout: Layout, *, clean: bool) -> Rows:
    """Counts by binades below the largest of each block, its own the last; without zeros, what is not finite, or too low.

    `clean`: there are neither zeros nor what is not finite.
    """
    last = (layout.fields - 1) * RAW
    nothing = -2 * last
    width = keys.shape[-1]
    finite = keys if clean else keys.masked_fill((keys >= last) | (keys == TIE), nothing)
    if width > BLOCK and width % BLOCK:
        finite = torch.nn.functional.pad(finite, (0, -width % BLOCK), value=nothing)
    blocks = finite.view(finite.shape[0], -1, min(width, BLOCK))
    tops = blocks.amax(-1, keepdim=True).clamp_(min=0).bitwise_right_shift_(5).sub_(_DEPTH + 1).mul_(RAW)
    moved = blocks.sub(tops).clamp_(min=0)
    counts: Rows = torch.bincount(moved.view(-1), minlength=(_DEPTH + 2) * RAW).cpu().numpy()
    return counts.reshape(_DEPTH + 2, RAW)[1:]


def _last(largest: int, name: str, layout: Layout) -> int:
    """The field of the binade that a tensor's scale moves to a format's largest one: that of the tensor's largest number.

    The next where that number's significand would overflow there.
    """
    field, fraction = divmod(largest, 1 << layout.mantissa)
    bound, held = _LIMITS[name]
    return field + (fraction << (52 - layout.mantissa) > bound - (not held))
