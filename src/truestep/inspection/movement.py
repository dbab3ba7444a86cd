"""Whether updates are large enough for a narrower format to store them: an update against the spacing of its weight."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from truestep.formats import FORMATS, Format
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
            change = after[name].double() - weights.double()
            where = change != 0
            if name in updated and updated[name].shape == where.shape:
                where |= updated[name]
            self._elements[name] = self._elements.get(name, 0) + int(where.count_nonzero())
            stuck = self._stuck.setdefault(name, dict.fromkeys(STORED, 0))
            for each in STORED:
                lost = change.abs() < half_ulp(weights, FORMATS[each])
                stuck[each] += int(lost.logical_and_(where).count_nonzero())

    def movements(self, layers: Mapping[str, str]) -> tuple[Movement, ...]:
        """What was counted, by parameter; `layers` says which layer holds each."""
        return tuple(
            Movement(parameter=name, layer=layers.get(name, ""), elements=count, stuck=self._stuck[name])
            for name, count in self._elements.items()
        )


def half_ulp(weights: Tensor, stored: Format) -> Tensor:
    """Half the distance from each weight to the next larger magnitude of a format, in float64.

    2^(max(floor(log2 |w|), e) - m - 1), e being the exponent of the format's smallest normal number and m its mantissa bits.

    >>> half_ulp(torch.tensor([1.0, -3.0, 0.0]), FORMATS["bf16"]).tolist() == [2.0**-8, 2.0**-7, 2.0**-134]
    True
    """
    _, exponents = torch.frexp(weights.double())  # 2^(exponent - 1) <= |w| < 2^exponent, and 0 for 0
    _, smallest = torch.frexp(torch.tensor(stored.smallest_normal, dtype=torch.float64))
    exponents = torch.where(weights == 0, smallest.to(weights.device), exponents).clamp_(min=int(smallest))
    return torch.ldexp(torch.ones_like(weights, dtype=torch.float64), exponents - stored.mantissa - 2)
