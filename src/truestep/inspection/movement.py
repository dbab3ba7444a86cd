"""Whether updates are large enough for a narrower format to store them: an update against the spacing of its weight."""

from __future__ import annotations

from collections.abc import Mapping

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

    def add(self, before: Mapping[str, Tensor], after: Mapping[str, Tensor], updated: Mapping[str, Tensor]) -> None:
        """One completed attempt: float32 weights before and after, and where the gradient at the optimizer was not 0."""
        for name, weights in before.items():
            given = updated.get(name)
            whole = given if given is not None and given.shape == weights.shape else torch.zeros_like(weights, dtype=torch.bool)
            self._elements.setdefault(name, 0)
            self._stuck.setdefault(name, dict.fromkeys(STORED, 0))
            parts = (torch.split(each.reshape(-1), AT_ONCE) for each in (weights, after[name], whole))
            for old, new, touched in zip(*parts, strict=True):
                self._add(name, old, new, touched)

    def _add(self, name: str, old: Tensor, new: Tensor, touched: Tensor) -> None:
        change = new - old  # exact wherever it is small beside the weight: Sterbenz
        where = (change != 0).logical_or_(touched)
        self._elements[name] += int(where.count_nonzero())
        for each in STORED:
            self._stuck[name][each] += int(below_half_ulp(change, old, FORMATS[each]).logical_and_(where).count_nonzero())

    def movements(self, layers: Mapping[str, str]) -> tuple[Movement, ...]:
        """What was counted, by parameter; `layers` says which layer holds each."""
        return tuple(
            Movement(parameter=name, layer=layers.get(name, ""), elements=count, stuck=self._stuck[name])
            for name, count in self._elements.items()
        )


def below_half_ulp(change: Tensor, weights: Tensor, stored: Format) -> Tensor:
    """Where |change| is less than half the distance from a float32 weight to the next larger magnitude of a format.

    |change| * 2^(m + 1) < 2^max(floor(log2 |w|), e), e being the exponent of the format's smallest normal number and m its
    mantissa bits. Scaling up by a power of two is exact; what overflows is not less.

    >>> weights = torch.tensor([1.0, -3.0, 0.0, 1.0])
    >>> below_half_ulp(torch.tensor([2.0**-9, 2.0**-8, 2.0**-135, 2.0**-8]), weights, FORMATS["bf16"]).tolist()
    [True, True, True, False]
    """
    exponents = weights.contiguous().view(torch.int32).bitwise_and(0x7F800000)  # of a subnormal weight 0, hence 0.0
    binades = exponents.view(torch.float32).clamp_(min=stored.smallest_normal)
    return change.abs().mul_(2.0 ** (stored.mantissa + 1)) < binades
