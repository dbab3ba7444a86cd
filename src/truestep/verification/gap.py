"""The gap between two gradients of one parameter, in numbers that need no format: size, direction, length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Gap:
    """One parameter at one attempt; every norm is a 2-norm in original units, computed in float64."""

    name: str
    elements: int
    reference: float
    """|r|, of what should have arrived; not finite where that is not."""
    arrived: float | None
    """|a|; None where nothing arrived."""
    error: float
    """|a - r|; |r| where nothing arrived."""
    plain_error: float
    """|f - r|, of the plain float32 full batch."""
    inner: float
    """<a, r>."""
    finite: bool
    """Whether all elements of what arrived and of r are finite."""

    @property
    def relative(self) -> float | None:
        """|a - r| / |r|; None where r is 0 or something is not finite.

        >>> one = gaps({"w": torch.tensor([3.0, 4.0])}, {"w": torch.tensor([3.0, 4.0])}, {"w": torch.tensor([6.0, 8.0])})[0]
        >>> one.relative, one.ratio, one.cosine
        (0.5, 0.5, 1.0)
        """
        return _over(self.error, self.reference)

    @property
    def plain_relative(self) -> float | None:
        """|f - r| / |r|."""
        return _over(self.plain_error, self.reference)

    @property
    def ratio(self) -> float | None:
        """|a| / |r|."""
        return None if self.arrived is None else _over(self.arrived, self.reference)

    @property
    def cosine(self) -> float | None:
        """Of the angle between a and r; None where either is 0, or not finite."""
        return None if not self.arrived else _over(self.inner, self.arrived * self.reference)

    @property
    def signed(self) -> float | None:
        """<a - r, r> / <r, r>: the part of the error that lengthens r, 1 where what arrived is twice as long."""
        return _over(self.inner - self.reference**2, self.reference**2)


def gaps(arrived: Mapping[str, Tensor], plain: Mapping[str, Tensor], reference: Mapping[str, Tensor]) -> list[Gap]:
    """The gap of every parameter that any of the three knows; one that the reference lacks is 0 there."""
    names = list(dict.fromkeys([*reference, *plain, *arrived]))
    return [_gap(name, arrived.get(name), plain.get(name), reference.get(name)) for name in names]


def whole(every: list[Gap]) -> Gap:
    """All parameters as one long one."""
    return Gap(
        name="all",
        elements=sum(each.elements for each in every),
        reference=math.hypot(*(each.reference for each in every)),
        arrived=math.hypot(*(each.arrived or 0.0 for each in every)),
        error=math.hypot(*(each.error for each in every)),
        plain_error=math.hypot(*(each.plain_error for each in every)),
        inner=sum(each.inner for each in every),
        finite=all(each.finite for each in every),
    )


def _gap(name: str, arrived: Tensor | None, plain: Tensor | None, reference: Tensor | None) -> Gap:
    shape = next(each for each in (reference, arrived, plain) if each is not None)
    a, f, r = (_flat(each, like=shape) for each in (arrived, plain, reference))
    numbers = [*map(torch.linalg.vector_norm, (r, a, a - r, f - r)), torch.dot(a, r)]
    length, size, error, plain_error, inner = torch.stack(numbers).tolist()  # one wait for a device, not five
    return Gap(
        name=name,
        elements=shape.numel(),
        reference=length,
        arrived=None if arrived is None else size,
        error=error,
        plain_error=plain_error,
        inner=inner,
        finite=math.isfinite(length) and math.isfinite(size),
    )


def _flat(gradient: Tensor | None, *, like: Tensor) -> Tensor:
    if gradient is None:
        return torch.zeros(like.numel(), dtype=torch.float64, device=like.device)
    flat = torch.view_as_real(gradient) if gradient.is_complex() else gradient
    return flat.detach().double().reshape(-1)


def _over(part: float, of: float) -> float | None:
    if of == 0 or not (math.isfinite(part) and math.isfinite(of)):
        return None
    return part / of
