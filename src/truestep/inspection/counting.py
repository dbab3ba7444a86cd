"""Counts the elements of tensors by binade and class of significand, from their bits: in one pass, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from truestep.formats import BLOCKS, FORMATS
from truestep.inspection.spread import BOUNDS, Losses, Spread, overflow_bound, split

AT_ONCE = 1 << 16
"""Elements whose bits are worked on together: what the processor's caches hold."""
BLOCK = 32
"""Elements of an MX block."""
PER_TENSOR = ("e4m3fn", "e5m2")
"""The fp8 formats that training scales a whole tensor for."""
_LIMITS = {
    name: (int((split(limit)[1] - 1) * 2**52), held)
    for name, (limit, held) in ((name, overflow_bound(FORMATS[name])) for name in PER_TENSOR)
}
"""The fraction, of 52 bits, at which each overflows in its largest binade; and whether it still holds that one."""
Rows = npt.NDArray[np.int64]
"""(binades, RAW): counts by exponent field and raw class."""

RAW = 64
"""Raw classes of a binade: the leading ones of the significand's bits, and a flag. See `_keys`."""
_FLAG = 32
_ONES = 24
"""Leading ones that are told apart: as many as the widest format's bounds have."""
_ZERO = _ONES + _FLAG
"""The key of 0."""
_EDGE = 13 << 20
"""e4m3fn's bound 1.8125 as a fraction of 24 bits: the one bound that is neither 1 nor 2 - 2^-k."""


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """How the bits of a float lie."""

    ints: torch.dtype
    mantissa: int
    fields: int
    bias: int

    @property
    def magnitude(self) -> int:
        """All bits but the sign."""
        return (self.fields << self.mantissa) - 1

    @property
    def infinity(self) -> int:
        """The bits of infinity; those of every NaN are above."""
        return (self.fields - 1) << self.mantissa


_SINGLE = _Layout(ints=torch.int32, mantissa=23, fields=256, bias=127)
_DOUBLE = _Layout(ints=torch.int64, mantissa=52, fields=2048, bias=1023)


class Counting:
    """The counts of all tensors that were added: as they are, relative to the largest of their block, and of their tensor.

    A block's scale in MX is 2^(floor(log2 amax) - emax), so that its elements are stored as x / 2^floor(log2 amax) * 2^emax: a
    spread of x / 2^floor(log2 amax) tells the losses of every MX format. Exact but where that scale is below e8m0's 2^-127.
    """

    def __init__(self) -> None:
        self.tensors = 0
        self._rows: dict[tuple[_Layout, str], Rows] = {}
        self._ends: list[tuple[float, float]] = []

    def add(self, tensor: Tensor) -> None:
        """Count every element of a tensor of any floating-point format."""
        self.tensors += 1
        if not tensor.numel():
            return
        flat = tensor.detach().reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
        parts = [_bits(part) for part in torch.split(flat, max(1, AT_ONCE // flat.shape[1]))]
        layout = parts[0][0]
        rows, blocks, ends = self._counted(parts)
        if layout is _SINGLE and rows[0].sum() > rows[0, _ZERO]:  # subnormal: float64 holds them with all their bits
            layout = _DOUBLE
            rows, blocks, ends = self._counted([_bits(flat.double())])
        self._gain(layout, "plain", rows)
        self._gain(layout, "block", blocks)
        largest = max((high for _, high in ends), default=0)
        if largest:
            smallest = min(low for low, _ in ends)
            self._ends.append((_float(smallest, layout), _float(largest, layout)))
            for name in PER_TENSOR:
                self._gain(layout, name, _shifted(rows, _tensor_shift(largest, name, layout)))

    @staticmethod
    def _counted(parts: list[tuple[_Layout, Tensor]]) -> tuple[Rows, Rows, list[tuple[int, int]]]:
        """Counts as they are and relative to the block; the bits of each part's smallest and largest finite magnitudes."""
        rows = blocks = None
        ends = []
        for layout, bits in parts:
            keys = _keys(bits, layout)
            plain, relative = _binned(keys, layout), _binned(_relative(keys, bits, layout), layout)
            rows, blocks = plain if rows is None else rows + plain, relative if blocks is None else blocks + relative
            finite = bits if not plain[-1].any() else bits[bits < layout.infinity]
            largest = int(finite.max()) if finite.numel() else 0
            if largest:  # a 0 becomes the largest of all
                ends.append((int((finite - 1).bitwise_and_(layout.magnitude).min()) + 1, largest))
        assert rows is not None
        assert blocks is not None
        return rows, blocks, ends

    def spread(self) -> Spread:
        """All elements as they are."""
        plain = sum((_spread(rows, layout.bias) for layout, rows in self._of("plain")), Spread(bins={}))
        smallest = min((low for low, _ in self._ends), default=None)
        return plain + Spread(bins={}, smallest=smallest, largest=max((high for _, high in self._ends), default=None))

    def blocks(self) -> dict[str, Losses]:
        """What each MX format loses."""
        relative = sum((_spread(rows, layout.fields - 2) for layout, rows in self._of("block")), Spread(bins={}))
        tops = {name: split(Fraction(each.element.max))[0] for name, each in BLOCKS.items()}
        return {name: relative.losses(each.element, scale=tops[name]) for name, each in BLOCKS.items()}

    def per_tensor(self) -> dict[str, Losses]:
        """What each fp8 format loses where every tensor has the largest power-of-two scale at which nothing overflows."""
        found = {}
        for name in PER_TENSOR:
            relative = sum((_spread(rows, layout.fields - 2) for layout, rows in self._of(name)), Spread(bins={}))
            found[name] = relative.losses(FORMATS[name], scale=split(overflow_bound(FORMATS[name])[0])[0])
        return found

    def _of(self, what: str) -> Iterator[tuple[_Layout, Rows]]:
        return ((layout, rows) for (layout, each), rows in self._rows.items() if each == what)

    def _gain(self, layout: _Layout, what: str, rows: Rows) -> None:
        if (layout, what) in self._rows:
            self._rows[layout, what] += rows
        else:
            self._rows[layout, what] = rows.copy()


def elements(tensor: Tensor) -> Tensor:
    """The real floating-point elements of a tensor: a sparse one's values with repeated indices summed, a complex one's parts."""
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce().values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _bits(tensor: Tensor) -> tuple[_Layout, Tensor]:
    """The bits of the magnitudes, in the tensor's shape; narrower formats widen to float32, which is exact."""
    tensor = tensor.detach()
    if tensor.dtype is torch.float64:
        return _DOUBLE, tensor.contiguous().view(torch.int64).bitwise_and(_DOUBLE.magnitude)
    return _SINGLE, tensor.float().contiguous().view(torch.int32).bitwise_and(_SINGLE.magnitude)


def _keys(bits: Tensor, layout: _Layout) -> Tensor:
    """exponent field * RAW + class, as int32.

    With m the first 24 bits of the fraction, 2^24 - 1 - m has its highest bit at 23 - k where m begins with k ones: converted to
    float32, which is exact, its exponent tells k. The flag is set for a fraction of 0 and for one above e4m3fn's bound.
    """
    fraction = bits.bitwise_and((1 << layout.mantissa) - 1)
    exponent = bits.bitwise_right_shift(layout.mantissa)
    if layout is _SINGLE:
        first = fraction.bitwise_left_shift(1)
        flag = (fraction - 1).bitwise_and_((1 << 23) - 1) >= _EDGE >> 1
    else:
        first, exponent = fraction.bitwise_right_shift(28).to(torch.int32), exponent.to(torch.int32)
        flag = (fraction - 1).bitwise_and_((1 << 52) - 1) >= _EDGE << 28
    place = first.neg_().add_((1 << 24) - 1).to(torch.float32).view(torch.int32).bitwise_right_shift_(23).sub_(126).clamp_(min=0)
    return place.add_(flag, alpha=_FLAG).add_(exponent, alpha=RAW)


def _binned(keys: Tensor, layout: _Layout) -> Rows:
    counts: Rows = torch.bincount(keys.flatten(), minlength=layout.fields * RAW).cpu().numpy()
    return counts.reshape(layout.fields, RAW)


def _relative(keys: Tensor, bits: Tensor, layout: _Layout) -> Tensor:
    """The keys with each block's largest exponent field moved to the last finite one; zeros keep theirs.

    What is not finite stays in the last field, and does not count as the largest of its block.
    """
    width = keys.shape[-1] if keys.dim() else 1
    exponents = keys.reshape(-1, width).bitwise_right_shift(6)
    missing = -width % BLOCK if width > BLOCK else 0
    if missing:
        exponents = torch.nn.functional.pad(exponents, (0, missing))
    blocks = exponents.view(exponents.shape[0], -1, min(width, BLOCK))
    last = layout.fields - 1
    if int(blocks.max()) == last:
        blocks = blocks.masked_fill(blocks == last, 0)
    moves = blocks.amax(-1, keepdim=True).neg_().add_(last - 1).expand(blocks.shape).reshape(exponents.shape[0], -1)[:, :width]
    moves = moves.reshape(keys.shape)
    moved = moves.mul(RAW).add_(keys).masked_fill_(bits == 0, _ZERO)
    return torch.where(bits < layout.infinity, moved, keys)


def _tensor_shift(largest: int, name: str, layout: _Layout) -> int:
    """By how many fields to move a tensor's counts, so that the last finite field is the binade of a format's largest number.

    One less where the largest element's significand would overflow in that binade.
    """
    field, fraction = divmod(largest, 1 << layout.mantissa)
    bound, held = _LIMITS[name]
    over = fraction << (52 - layout.mantissa) > bound - (not held)
    return layout.fields - 2 - field - over


def _shifted(rows: Rows, by: int) -> Rows:
    """The counts moved up by some fields; zeros and what is not finite stay."""
    moved = np.zeros_like(rows)
    source = rows[1:-1]
    if by >= 0:
        moved[1 + by : -1] = source[: len(source) - by]
    else:  # the largest binade itself, one down
        moved[1 : by - 1] = source[-by:]
        moved[1] += source[:-by].sum(0)
    moved[0], moved[-1] = rows[0], rows[-1]
    return moved


def _spread(rows: Rows, bias: int) -> Spread:
    """The spread of counts by field, where field `bias` is the binade of 1; ends are not known here."""
    classes = rows[:-1] @ _CLASSES
    classes[0, _CLASS_OF[_ZERO]] -= rows[0, _ZERO]
    filled = np.flatnonzero(classes.sum(1))
    return Spread(
        zeros=int(rows[0, _ZERO]),
        infinities=int(rows[-1, _ZERO]),
        nans=int(rows[-1].sum() - rows[-1, _ZERO]),
        bins={int(field) - bias: tuple(classes[field].tolist()) for field in filled},
    )


def _float(bits: int, layout: _Layout) -> float:
    return float(torch.tensor(bits, dtype=layout.ints).view(torch.float64 if layout is _DOUBLE else torch.float32))


def _class_of(raw: int) -> int:
    """The class of `BOUNDS` that a raw class lies in, by its smallest significand."""
    flagged, place = divmod(raw, _FLAG)
    if place > _ONES:
        return 0
    significand = 2 - Fraction(2) ** (place - _ONES)
    tiny = Fraction(1, 1 << 60)
    if flagged and place == _ONES:
        significand = Fraction(1)
    elif flagged and place == _ONES - 2:
        significand = 1 + Fraction(_EDGE, 1 << 24) + tiny
    elif place == _ONES:
        significand += tiny
    return sum(significand > bound if strict else significand >= bound for bound, strict in BOUNDS) - 1


_CLASS_OF = [_class_of(raw) for raw in range(RAW)]
_CLASSES: Rows = np.array([[int(each == known) for known in range(len(BOUNDS))] for each in _CLASS_OF], dtype=np.int64)
