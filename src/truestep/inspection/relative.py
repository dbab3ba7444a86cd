"""Counts numbers relative to the largest of their block and of their tensor: what MX and one scale by tensor make of them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from truestep.formats import BLOCKS, FORMATS
from truestep.inspection.bits import RAW, SINGLE, TIE, Layout, Rows, bits_of, keys_of, spread_of
from truestep.inspection.spread import Losses, Spread, overflow_bound, split

BLOCK = 32
"""Elements of an MX block."""
MOST = 2048
"""Blocks that are counted of a tensor: all of one that has no more, else as many that are drawn."""
PER_TENSOR = ("e4m3fn", "e5m2")
"""The fp8 formats that training scales a whole tensor for."""
_LIMITS = {
    name: (int((split(limit)[1] - 1) * 2**52), held)
    for name, (limit, held) in ((name, overflow_bound(FORMATS[name])) for name in PER_TENSOR)
}
"""The fraction, of 52 bits, at which each overflows in its largest binade; and whether it still holds that one."""
_DEPTH = 40
"""Binades below its block's largest number that are told apart: every MX format flushes what is lower."""


_TOPS = {name: split(Fraction(each.element.max))[0] for name, each in BLOCKS.items()}
_TOPS |= {name: split(overflow_bound(FORMATS[name])[0])[0] for name in PER_TENSOR}
"""The largest binade of each format."""


class _Below:
    """Counts by binades below a binade that something put last."""

    def __init__(self) -> None:
        self._rows = np.zeros((_DEPTH + 1, RAW))
        self._far = 0.0
        """Numbers that lie lower than `_DEPTH` below it."""

    def add(self, rows: Rows, numbers: int, weight: float, *, missing: int = 0) -> None:
        """Of so many numbers those whose binades are told apart, of which the last so many are missing, for they are empty.

        Each stands for `weight` numbers.
        """
        end = _DEPTH + 1 - missing
        self._rows[end - len(rows) : end] += rows * weight
        self._far += (numbers - int(rows.sum())) * weight

    def spread(self) -> Spread:
        """The spread in which the last binade is that of 1."""
        none = np.zeros((1, RAW), dtype=np.int64)
        far = none.copy()
        far[0, 0] = round(self._far)
        return spread_of(np.concatenate([none, far, np.rint(self._rows).astype(np.int64), none]), _DEPTH + 2)


class Relative:
    """The counts of blocks of all tensors that were added, as estimated where blocks were drawn.

    A block's scale in MX is 2^(floor(log2 amax) - emax), so that its elements are stored as x / 2^floor(log2 amax) * 2^emax: a
    spread of x / 2^floor(log2 amax) tells the losses of every MX format. Exact but where that scale is below e8m0's 2^-127.
    """

    def __init__(self) -> None:
        self._widest = 1.0
        """How many blocks a counted one stands for at most."""
        self._numbers = 0.0
        """Finite numbers that are not 0, as estimated."""
        self._blocks = _Below()
        self._tensors = {name: _Below() for name in PER_TENSOR}
        self._draws = torch.Generator().manual_seed(0)

    @property
    def error(self) -> float | None:
        """What a share p may be off, in 19 of 20 such draws; None where every block was counted.

        p is stratified by tensor: w = blocks there / blocks drawn weighs each of its own. With m_b numbers of block b that are
        not 0, s_b the share lost of them and M = sum w m_b, the variance of the ratio is sum w (w - 1) m_b^2 (s_b - p)^2 / M^2.
        For m_b <= 32 and sum w m_b (s_b - p)^2 <= M / 4 that is at most 8 max(w - 1) / M, whatever the numbers of a block have
        in common; the error is 1.96 of its roots.
        """
        if self._widest == 1:
            return None
        return min(1.0, 1.96 * math.sqrt(BLOCK / 4 * (self._widest - 1) / self._numbers)) if self._numbers else 1.0

    def add(self, tensor: Tensor) -> None:
        """Count a tensor's blocks along its last dimension, a shorter one last, or so many of them."""
        tensor = tensor.detach()
        if not tensor.numel():
            return
        blocks, weight = self._drawn(tensor)
        layout, keys, largest = _keyed(blocks, tensor)
        if layout is SINGLE and bool(((keys < RAW) & (keys != TIE)).any()):  # subnormal: float64 holds all their bits
            layout, keys, largest = _keyed(blocks.double(), tensor.double())
        rows: Rows = torch.bincount(keys.view(-1), minlength=layout.fields * RAW).cpu().numpy().reshape(layout.fields, RAW)
        if not largest:
            return
        clean = not rows[0].any() and not rows[-1].any()
        finite = rows[:-1]
        finite[0, TIE] = 0
        numbers = int(finite.sum())
        self._numbers += numbers * weight
        self._blocks.add(_relative(keys, layout, clean=clean), numbers, weight)
        for name, below in self._tensors.items():
            last = _last(largest, name, layout)
            below.add(finite[max(last - _DEPTH, 0) : last + 1], numbers, weight, missing=max(last + 1 - len(finite), 0))

    def blocks(self) -> dict[str, Losses]:
        """What each MX format loses."""
        relative = self._blocks.spread()
        return {name: relative.losses(each.element, scale=_TOPS[name]) for name, each in BLOCKS.items()}

    def per_tensor(self) -> dict[str, Losses]:
        """What each fp8 format loses where every tensor has the largest power-of-two scale at which nothing overflows."""
        return {name: each.spread().losses(FORMATS[name], scale=_TOPS[name]) for name, each in self._tensors.items()}

    def _drawn(self, tensor: Tensor) -> tuple[Tensor, float]:
        """Blocks as rows, filled up with zeros, which count for nothing; and how many blocks each stands for."""
        width = tensor.shape[-1] if tensor.dim() else 1
        size = min(width, BLOCK)
        whole = tensor.reshape(-1, width)
        if width % size:
            whole = torch.nn.functional.pad(whole, (0, -width % size))
        blocks = whole.reshape(-1, size)
        count = min(len(blocks), MOST)
        weight = len(blocks) / max(count, 1)
        self._widest = max(self._widest, weight)
        if count == len(blocks):
            return blocks, 1.0
        return blocks[torch.randperm(len(blocks), generator=self._draws)[:count].to(blocks.device)], weight


def _keyed(blocks: Tensor, tensor: Tensor) -> tuple[Layout, Tensor, int]:
    """Layout, keys of the blocks, and the bits of the tensor's largest finite magnitude, 0 where there is none."""
    layout, bits = bits_of(blocks)
    low, high = (float(end) for end in tensor.aminmax())
    if not math.isfinite(low + high):
        low, high = (float(end) for end in tensor.nan_to_num(0.0, 0.0, 0.0).aminmax())
    largest = torch.tensor(max(-low, high), dtype=layout.floats).view(layout.ints)
    return layout, keys_of(bits, layout), int(largest.bitwise_and(layout.magnitude))


def _relative(keys: Tensor, layout: Layout, *, clean: bool) -> Rows:
    """Counts by binades below the largest of each row, its own the last; without zeros, what is not finite, or too low.

    `clean`: there are neither zeros nor what is not finite.
    """
    last = (layout.fields - 1) * RAW
    blocks = keys if clean else keys.masked_fill((keys >= last) | (keys == TIE), -2 * last)
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
