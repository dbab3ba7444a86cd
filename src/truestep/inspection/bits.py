"""The bits of floats as keys of counts: the binade, and how far into it, finely enough for every format's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from truestep.inspection.spread import BOUNDS, Spread

Rows = npt.NDArray[np.int64]
"""(binades, RAW): counts by exponent field and raw class."""

RAW = 32
"""Raw classes of a binade, by the ones that a fraction begins with: 25 none, 24 one, 23 and 22 two, 21 three, to 0 for 24."""
_PLAIN = 25
TIE = 31
"""The raw class of the power of two itself. In the lowest field it is 0, in the highest infinity."""
_ONES = 24
"""Leading ones that are told apart: as many as the widest format's bounds have."""
_EDGE = Fraction(13, 16)
"""e4m3fn's bound 1.8125 less 1: the one bound that is neither 1 nor 2 - 2^-k. It divides what begins with two ones."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How the bits of a float lie."""

    ints: torch.dtype
    floats: torch.dtype
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

    def value(self, bits: int) -> float:
        """The float of these bits."""
        return float(torch.tensor(bits, dtype=self.ints).view(self.floats))


SINGLE = Layout(ints=torch.int32, floats=torch.float32, mantissa=23, fields=256, bias=127)
DOUBLE = Layout(ints=torch.int64, floats=torch.float64, mantissa=52, fields=2048, bias=1023)


def bits_of(tensor: Tensor) -> tuple[Layout, Tensor]:
    """The bits of the magnitudes, in the tensor's shape; narrower formats widen to float32, which is exact."""
    layout = DOUBLE if tensor.dtype is torch.float64 else SINGLE
    return layout, tensor.detach().to(layout.floats).contiguous().view(layout.ints).bitwise_and(layout.magnitude)


def keys_of(bits: Tensor, layout: Layout) -> Tensor:
    """exponent field * RAW + raw class.

    With m the fraction's M bits, 2^M - 1/2 - m is exact in the same kind of float, and its exponent is M - 1 - k where m begins
    with k ones; times a power of two, that float's exponent field is 25 - k. One is taken off above e4m3fn's
    bound, and a fraction of 0 is moved to `TIE`.
    """
    size = 1 << layout.mantissa
    fraction = bits.bitwise_and(size - 1)
    unit = 2.0 ** (_PLAIN - layout.bias - layout.mantissa + 1)
    keys = torch.rsub(fraction.to(layout.floats), (size - 0.5) * unit, alpha=unit)
    keys = keys.view(layout.ints).bitwise_right_shift_(layout.mantissa)
    if layout.mantissa > _ONES:
        keys.clamp_(min=1)
    keys.add_(bits.bitwise_right_shift(layout.mantissa), alpha=RAW)
    if int(fraction.min()) == 0:  # -1 shifted down is all ones; any other is 0
        keys.sub_((fraction - 1).bitwise_right_shift_(layout.mantissa), alpha=TIE - _PLAIN)
    return keys.sub_(fraction.add_(size - int(_EDGE * size) - 1).bitwise_right_shift_(layout.mantissa))


def spread_of(rows: Rows, bias: int) -> Spread:
    """The spread of counts by field, where field `bias` is the binade of 1; ends are not known here."""
    zeros = int(rows[0, TIE])
    filled = np.flatnonzero(rows[:-1].any(1))
    if rows[0].sum() == zeros:
        filled = filled[filled > 0]
    classes = rows[filled] @ _CLASSES
    if zeros and filled.size and filled[0] == 0:
        classes[0, _CLASS_OF[TIE]] -= zeros
    return Spread(
        zeros=zeros,
        infinities=int(rows[-1, TIE]),
        nans=int(rows[-1].sum() - rows[-1, TIE]),
        bins={field - bias: tuple(counts) for field, counts in zip(filled.tolist(), classes.tolist(), strict=True)},
    )


def class_of(raw: int) -> int:
    """The class of `BOUNDS` that a raw class lies in, by its smallest significand."""
    tiny = Fraction(1, 1 << 60)
    if raw >= _PLAIN:
        significand = 1 + tiny * (raw != TIE)
    elif raw == _PLAIN - 3:
        significand = 1 + _EDGE + tiny
    else:
        ones = _PLAIN - raw if raw > _PLAIN - 3 else _ONES - raw
        significand = 2 - Fraction(1, 1 << ones)
    return sum(significand > bound if strict else significand >= bound for bound, strict in BOUNDS) - 1


_CLASS_OF = [class_of(raw) for raw in range(RAW)]
_CLASSES: Rows = np.array([[int(each == known) for known in range(len(BOUNDS))] for each in _CLASS_OF], dtype=np.int64)
