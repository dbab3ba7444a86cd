"""The gap between two gradients of one parameter, in numbers that need no format: size, direction, length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

TOGETHER = 2**18
"""Elements whose differences are held at once on a device, in float64; those of a larger tensor are held alone."""

NUMPYS = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64}
"""The real formats that NumPy has too."""

BLOCK = 8192
"""Elements whose differences are held at once on a CPU: they stay in its cache, and NumPy's scalar product in its thread."""

APART = 2.0**-36
"""The ratio of two lengths down to which `inner` tells their angle: to 2^-53 / 2^-36, the last digit that is shown of it."""


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
    plain: float
    """|f|."""

    @property
    def finite(self) -> bool:
        """Whether all elements of what arrived and of r are finite."""
        return math.isfinite(self.reference) and math.isfinite(self.arrived or 0.0)

    @property
    def inner(self) -> float:
        """<a, r>, by the law of cosines: to a few units of float64 of the larger of |a|^2 and |r|^2."""
        return _inner(self.arrived or 0.0, self.reference, self.error)

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
        """Of the angle between a and r; None where either is 0, not finite, or too small beside the other for `inner` to tell."""
        shorter, longer = sorted((self.arrived or 0.0, self.reference))
        return None if shorter <= APART * longer else _over(self.inner, shorter * longer)

    @property
    def signed(self) -> float | None:
        """<a - r, r> / <r, r>: the part of the error that lengthens r, 1 where what arrived is twice as long."""
        return _over(self.inner - self.reference**2, self.reference**2)

    @property
    def plain_signed(self) -> float | None:
        """The same of the plain float32 full batch."""
        return _over(_inner(self.plain, self.reference, self.plain_error) - self.reference**2, self.reference**2)


def gaps(arrived: Mapping[str, Tensor], plain: Mapping[str, Tensor], reference: Mapping[str, Tensor]) -> list[Gap]:
    """The gap of every parameter that any of the three knows; one that the reference lacks is 0 there."""
    names = dict.fromkeys([*reference, *plain, *arrived])
    trios = [_trio(reference.get(name), arrived.get(name), plain.get(name)) for name in names]
    if all(trio.reference.is_cpu for trio in trios):
        lengths = [_alone(trio) for trio in trios]
    else:
        lengths = [each for group in _grouped(trios) for each in _together(group)]
    return [
        Gap(
            name=name,
            elements=trio.elements,
            reference=r,
            arrived=a if name in arrived else None,
            error=error,
            plain_error=plain_error,
            plain=f,
        )
        for name, trio, (r, a, f, error, plain_error) in zip(names, trios, lengths, strict=True)
    ]


def whole(every: list[Gap]) -> Gap:
    """All parameters as one long one."""
    return Gap(
        name="all",
        elements=sum([each.elements for each in every]),
        reference=math.hypot(*[each.reference for each in every]),
        arrived=math.hypot(*[each.arrived or 0.0 for each in every]),
        error=math.hypot(*[each.error for each in every]),
        plain_error=math.hypot(*[each.plain_error for each in every]),
        plain=math.hypot(*[each.plain for each in every]),
    )


class _Trio(NamedTuple):
    """Three gradients of one parameter, real numbers; 0 where one is not there."""

    elements: int
    reference: Tensor
    arrived: Tensor
    plain: Tensor


def _trio(*three: Tensor | None) -> _Trio:
    r, a, f = three
    if r is None or a is None or f is None:
        found = next(each for each in three if each is not None)
        r, a, f = [torch.zeros_like(found) if each is None else each for each in three]
    if r.is_complex():
        return _Trio(r.numel(), *map(torch.view_as_real, (r, a, f)))
    return _Trio(r.numel(), r, a, f)


def _alone(trio: _Trio) -> list[float]:
    """|r|, |a|, |f|, |a - r| and |f - r| on a CPU, by NumPy: a call of torch takes three times as long, and here are ten."""
    r, a, f = _flat(trio.reference), _flat(trio.arrived), _flat(trio.plain)
    squares = _squares(r[:BLOCK], a[:BLOCK], f[:BLOCK])
    for start in range(BLOCK, len(r), BLOCK):
        block = slice(start, start + BLOCK)
        squares = [one + more for one, more in zip(squares, _squares(r[block], a[block], f[block]), strict=True)]
    return [math.sqrt(square) for square in squares]


def _squares(r: npt.NDArray[Any], a: npt.NDArray[Any], f: npt.NDArray[Any]) -> list[float]:
    r, a, f = r.astype(np.float64, copy=False), a.astype(np.float64, copy=False), f.astype(np.float64, copy=False)
    square = r.dot(r)
    apart = (a - r, f - r) if math.isfinite(square) else (r, r)  # nothing lies near to infinity, and NumPy warns of inf - inf
    return [square, a.dot(a), f.dot(f), *[each.dot(each) for each in apart]]


def _flat(gradient: Tensor) -> npt.NDArray[Any]:
    held = gradient if gradient.dtype in NUMPYS else gradient.double()
    return held.numpy(force=True).reshape(-1)


def _together(group: Sequence[_Trio]) -> list[list[float]]:
    """The same five numbers of each, with one wait for a device."""
    _, *columns = zip(*group, strict=True)
    r, a, f = [[each.double() for each in column] for column in columns]
    held = [*r, *a, *f, *torch._foreach_sub(a, r), *torch._foreach_sub(f, r)]
    numbers: list[list[float]] = torch.stack(torch._foreach_norm(held)).view(5, -1).T.tolist()
    return numbers


def _grouped(trios: Sequence[_Trio]) -> Iterator[list[_Trio]]:
    """As many as are held together, in their order."""
    group: list[_Trio] = []
    elements = 0
    for trio in trios:
        if group and (elements + trio.elements > TOGETHER or trio.reference.device != group[0].reference.device):
            yield group
            group, elements = [], 0
        group.append(trio)
        elements += trio.elements
    if group:
        yield group


def _inner(one: float, other: float, apart: float) -> float:
    return (one * one + other * other - apart * apart) / 2


def _over(part: float, of: float) -> float | None:
    if of == 0 or not (math.isfinite(part) and math.isfinite(of)):
        return None
    return part / of
