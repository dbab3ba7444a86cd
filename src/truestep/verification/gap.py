"""The gap between two gradients of one parameter, in numbers that need no format: size, direction, length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

TOGETHER = 2**16
"""Elements that are measured at once: a larger tensor is measured alone, whose norms are then summed pairwise."""


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
    plain_inner: float | None = None
    """<f, r>; None where it was not computed."""

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

    @property
    def plain_signed(self) -> float | None:
        """The same of the plain float32 full batch."""
        return None if self.plain_inner is None else _over(self.plain_inner - self.reference**2, self.reference**2)


def gaps(arrived: Mapping[str, Tensor], plain: Mapping[str, Tensor], reference: Mapping[str, Tensor]) -> list[Gap]:
    """The gap of every parameter that any of the three knows; one that the reference lacks is 0 there."""
    names = dict.fromkeys([*reference, *plain, *arrived])
    trios = [_trio(name, arrived.get(name), plain.get(name), reference.get(name)) for name in names]
    return [_gap(trio, numbers) for group in _grouped(trios) for trio, numbers in zip(group, _numbers(group), strict=True)]


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
        plain_inner=sum(each.plain_inner or 0.0 for each in every),
    )


class _Trio(NamedTuple):
    """Three gradients of one parameter, each laid out flat; 0 where it is not there."""

    name: str
    elements: int
    arrives: bool
    arrived: Tensor
    plain: Tensor
    reference: Tensor


def _trio(name: str, *three: Tensor | None) -> _Trio:
    flats = [None if each is None else _flat(each) for each in three]
    like = next(each for each in three if each is not None)
    a, f, r = (torch.zeros_like(_flat(like)) if each is None else each for each in flats)
    return _Trio(name, like.numel(), three[0] is not None, a, f, r)


def _grouped(trios: Sequence[_Trio]) -> Iterator[list[_Trio]]:
    """As many as fit together, in their order: an operation on many small tensors costs as much as one on a single one."""
    group: list[_Trio] = []
    elements = 0
    for trio in trios:
        size = trio.elements
        if group and (elements + size > TOGETHER or trio.reference.device != group[0].reference.device):
            yield group
            group, elements = [], 0
        group.append(trio)
        elements += size
    if group:
        yield group


def _numbers(group: Sequence[_Trio]) -> list[list[float]]:
    """|r|, |a|, |a - r|, |f - r|, <a, r> and <f, r> of each."""
    a, f, r = (_end_to_end(flats) for flats in zip(*(trio[3:] for trio in group), strict=True))
    if len(group) == 1:
        alone = [*map(torch.linalg.vector_norm, (r, a, a - r, f - r)), torch.dot(a, r), torch.dot(f, r)]
        return [torch.stack(alone).tolist()]  # one wait for a device, not six
    lengths = torch.tensor([trio.reference.numel() for trio in group], device=r.device)
    squares = torch.stack([r * r, a * a, (a - r).square_(), (f - r).square_(), a * r, f * r], dim=1)
    sums = torch.segment_reduce(squares, "sum", lengths=lengths, axis=0, unsafe=True)
    return torch.cat([sums[:, :4].sqrt(), sums[:, 4:]], dim=1).tolist()


def _end_to_end(flats: Sequence[Tensor]) -> Tensor:
    """In float64."""
    return (torch.cat(tuple(flats)) if len(flats) > 1 else flats[0]).double()


def _gap(trio: _Trio, numbers: Sequence[float]) -> Gap:
    length, size, error, plain_error, inner, plain_inner = numbers
    return Gap(
        name=trio.name,
        elements=trio.elements,
        reference=length,
        arrived=size if trio.arrives else None,
        error=error,
        plain_error=plain_error,
        inner=inner,
        finite=math.isfinite(length) and math.isfinite(size),
        plain_inner=plain_inner,
    )


def _flat(gradient: Tensor) -> Tensor:
    return (torch.view_as_real(gradient) if gradient.is_complex() else gradient).reshape(-1)


def _over(part: float, of: float) -> float | None:
    if of == 0 or not (math.isfinite(part) and math.isfinite(of)):
        return None
    return part / of
