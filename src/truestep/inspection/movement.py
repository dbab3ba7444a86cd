"""Whether updates are large enough for a narrower format to store them: an update against the spacing of its weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat

import torch
from torch import Tensor

from truestep.formats import FORMATS, Format
from truestep.inspection.counting import AT_ONCE
from truestep.inspection.result import Movement

STORED = ("fp32", "bf16", "fp16")
"""The formats that weights are kept in."""


class Moving:
    """Counts, over all completed attempts, the updates that each format would lose."""

    def __init__(self) -> None:
        self._elements: dict[str, int] = {}
        self._stuck: dict[str, dict[str, int]] = {}

    def add(self, before: Mapping[str, Tensor], after: Mapping[str, Tensor], updated: Mapping[str, Tensor | None]) -> None:
        """One completed attempt: float32 weights before and after, and where the gradient at the optimizer was not 0.

        None means everywhere; a mask of another shape, or none at all, tells nothing.
        """
        for name, weights in before.items():
            self._elements.setdefault(name, 0)
            self._stuck.setdefault(name, dict.fromkeys(STORED, 0))
            given = updated.get(name)
            known = given if given is not None and given.shape == weights.shape else weights.new_zeros((), dtype=torch.bool)
            touched = None if name in updated and given is None else known.expand(weights.shape)
            masks: Iterable[Tensor | None] = repeat(None) if touched is None else torch.split(touched.reshape(-1), AT_ONCE)
            parts = (torch.split(each.reshape(-1), AT_ONCE) for each in (weights, after[name]))
            for old, new, mask in zip(*parts, masks, strict=touched is not None):
                self._add(name, old, new, mask)

    def _add(self, name: str, old: Tensor, new: Tensor, touched: Tensor | None) -> None:
        change = new - old  # exact wherever it is small beside the weight: Sterbenz
        without = 0 if touched is None else change.numel() - int((change != 0).logical_or_(touched).count_nonzero())
        self._elements[name] += change.numel() - without
        size, binades = change.abs_(), binades_of(old)
        for each in STORED:  # what had no update is below any spacing
            self._stuck[name][each] += int(below_half_ulp(size, binades, FORMATS[each]).count_nonzero()) - without

    def movements(self, layers: Mapping[str, str]) -> tuple[Movement, ...]:
        """What was counted, by parameter; `layers` says which layer holds each."""
        return tuple(
            Movement(parameter=name, layer=layers.get(name, ""), elements=count, stuck=self._stuck[name])
            for name, count in self._elements.items()
        )


def binades_of(weights: Tensor) -> Tensor:
    """2^floor(log2 |w|) of float32 weights; of a subnormal one 0.

    >>> binades_of(torch.tensor([1.5, -3.0, 0.0])).tolist()
    [1.0, 2.0, 0.0]
    """
    return weights.contiguous().view(torch.int32).bitwise_and(0x7F800000).view(torch.float32)


def below_half_ulp(size: Tensor, binades: Tensor, stored: Format) -> Tensor:
    """Where |change| is less than half the distance from a float32 weight to the next larger magnitude of a format.

    |change| * 2^(m + 1) < 2^max(floor(log2 |w|), e), e being the exponent of the format's smallest normal number and m its
    mantissa bits. Scaling up by a power of two is exact; what overflows is not less.

    >>> binades = binades_of(torch.tensor([1.0, -3.0, 0.0, 1.0]))
    >>> below_half_ulp(torch.tensor([2.0**-9, 2.0**-8, 2.0**-135, 2.0**-8]), binades, FORMATS["bf16"]).tolist()
    [True, True, True, False]
    """
    return size.mul(2.0 ** (stored.mantissa + 1)) < binades.clamp(min=stored.smallest_normal)
