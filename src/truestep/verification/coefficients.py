"""What arrived at the optimizer, written as a combination of the microbatches' own gradients.

Every mistake of order and weight is one: arrived = sum_k c_k g_k + d before, where g_k is the gradient of the k-th microbatch's
own mean loss, and the c_k say what was done to it. All that is asked of the gradients is in their scalar products, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Vector = npt.NDArray[np.float64]

BLOCK = 1 << 20
"""Elements that are looked at together, in float64."""
ROUNDINGS = 4.0
"""Units of roundoff by which a right combination may lie off among the gradients themselves. Measured: at most 1.7, over digits
and bytes-lm in float16 and bfloat16, fresh and trained, of the norms of its terms added up."""
ASIDE = 32.0
"""Units of roundoff of what is no combination and still no more than rounding: at most 22, measured likewise."""
DRIFT = 0.5
"""Of what is no combination, the share by which it may lie off among the gradients too: at most 0.4, where it was no rounding."""
FLOAT32_UNIT = 2.0**-24
FINEST = 2.0**-20
"""The finest unit of roundoff that is asked for: clip_grad_norm_ adds 1e-6 to a norm, and float32 sums in some order."""
LOST = 0.25
"""A share of what arrived beyond which a residual is no rounding, and the coefficients no account of it."""


@dataclass(frozen=True, kw_only=True)
class Combination:
    """The combination that lies nearest to what arrived: of least norm where several do.

    The c_k that minimise |a - sum_k c_k g_k|^2 over all parameters, by the normal equations in float64.
    """

    coefficients: tuple[float, ...]
    """Of each microbatch."""
    before: float | None
    """Of what arrived at the attempt before; None where that is not known."""
    uncertainty: tuple[float, ...]
    """How far rounding may move each coefficient, `before` last."""
    residual: float
    """Length of what is no combination, as a share of what arrived."""
    rounding: float
    """The share that rounding explains."""
    told_apart: bool
    """Whether the gradients differ enough for every coefficient to be told."""

    @property
    def explained(self) -> bool:
        """Whether what arrived is a combination of these gradients, and rounding."""
        return self.residual <= self.rounding


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The scalar products of what arrived, of the microbatches' gradients and of what arrived before, parameter by parameter."""

    names: tuple[str, ...]
    microbatches: int
    products: Vector
    """[parameters, columns, columns], of the microbatches' gradients with each other; what arrived before comes last."""
    against: Vector
    """[parameters, columns], of what arrived with each of them."""
    squares: Vector
    """[parameters], of what arrived with itself."""
    unit: float
    """Unit roundoff of the format that the products were computed in."""

    def over(self, names: Sequence[str]) -> Geometry:
        """The same of some of the parameters."""
        rows = [index for index, name in enumerate(self.names) if name in set(names)]
        return Geometry(
            names=tuple(self.names[row] for row in rows),
            microbatches=self.microbatches,
            products=self.products[rows],
            against=self.against[rows],
            squares=self.squares[rows],
            unit=self.unit,
        )

    @property
    def columns(self) -> int:
        """How many gradients are combined."""
        return int(self.products.shape[1])

    @cached_property
    def gram(self) -> Vector:
        """The products over all parameters."""
        return np.asarray(self.products.sum(axis=0))

    @cached_property
    def lengths(self) -> Vector:
        """The norm of each microbatch's gradient."""
        return np.asarray(np.sqrt(np.diag(self.gram)))

    @cached_property
    def arrived(self) -> float:
        """The norm of what arrived."""
        return math.sqrt(float(self.squares.sum()))

    def norm(self, coefficients: Sequence[float] | Vector) -> float:
        """The norm of a combination."""
        c = self.filled(coefficients)
        return math.sqrt(max(float(c @ self.gram @ c), 0.0))

    def size(self, coefficients: Sequence[float] | Vector) -> float:
        """The norms of a combination's terms, added: what rounding is relative to."""
        return float(np.abs(self.filled(coefficients)) @ self.lengths)

    def distance(self, coefficients: Sequence[float] | Vector) -> float:
        """How far a combination lies from what arrived."""
        c = self.filled(coefficients)
        square = float(c @ self.gram @ c) - 2 * float(c @ self.against.sum(axis=0)) + float(self.squares.sum())
        return math.sqrt(max(square, 0.0))

    def filled(self, coefficients: Sequence[float] | Vector) -> Vector:
        """The coefficients of every column: what arrived before counts nothing where nothing is said of it."""
        given = np.asarray(coefficients, dtype=np.float64)
        return np.concatenate([given, np.zeros(self.columns - len(given))])

    @property
    def noise(self) -> float:
        """How far from the nearest combination one may lie that is meant."""
        found = self.nearest
        share = found.rounding / ASIDE * ROUNDINGS
        return self.arrived * (max(share, DRIFT * found.residual) if found.residual < LOST else share)

    def fits(self, coefficients: Sequence[float] | Vector) -> bool:
        """Whether a combination may be what arrived: more than noise, and no further than that from the nearest one."""
        found = self.nearest
        if found.residual >= LOST or not self.noise < self.norm(coefficients):
            return False
        whole = np.array(found.coefficients if found.before is None else (*found.coefficients, found.before))
        return self.norm(self.filled(coefficients) - whole) <= self.noise

    @cached_property
    def nearest(self) -> Combination:
        """The nearest combination. Gradients that rounding makes alike share what they have in common in equal parts."""
        lengths, arrived = self.lengths, self.arrived
        if arrived == 0 or not lengths.any():
            return self._nothing()
        used = lengths > 0
        unit = max(self.unit, FINEST)
        scaled = self.gram[np.ix_(used, used)] / np.outer(lengths[used], lengths[used])
        values, vectors = np.linalg.eigh(scaled)
        kept = values > used.sum() * (ROUNDINGS * unit) ** 2
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        coefficients = np.zeros(self.columns)
        coefficients[used] = inverse @ (self.against.sum(axis=0)[used] / lengths[used]) / lengths[used]
        size = unit * max(self.size(coefficients), arrived)
        residual = self.distance(coefficients)
        spread = np.zeros(self.columns)
        noise = max(ROUNDINGS * size, DRIFT * residual)
        spread[used] = noise * np.sqrt(np.diag(inverse)) / lengths[used]
        return Combination(
            coefficients=tuple(coefficients[: self.microbatches].tolist()),
            before=float(coefficients[-1]) if self.columns > self.microbatches else None,
            uncertainty=tuple(spread.tolist()),
            residual=residual / arrived,
            rounding=ASIDE * size / arrived,
            told_apart=bool(used.all() and kept.all()),
        )

    def _nothing(self) -> Combination:
        zeros = (0.0,) * self.columns
        return Combination(
            coefficients=zeros[: self.microbatches],
            before=0.0 if self.columns > self.microbatches else None,
            uncertainty=zeros,
            residual=0.0 if self.arrived == 0 else 1.0,
            rounding=0.0,
            told_apart=False,
        )


def geometry(
    arrived: Mapping[str, Tensor],
    parts: Sequence[Mapping[str, Tensor]],
    *,
    unit: float,
    before: Mapping[str, Tensor] | None = None,
    limit: float | None = None,
) -> Geometry:
    """The scalar products of gradients given by parameter name. What is missing is zero.

    Args:
        unit: Unit roundoff of the format that the products were computed in.
        limit: Elements that have arrived at this size were cut to it, and are left out; None leaves out none.

    >>> parts = [{"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([1.0, 2.0])}]
    >>> found = geometry({"w": torch.tensor([2.0, 2.0])}, parts, unit=2.0**-24).nearest
    >>> [round(each, 9) for each in found.coefficients], found.told_apart
    ([1.0, 1.0], True)
    """
    columns = [*parts, *([] if before is None else [before])]
    names = tuple(dict.fromkeys(name for column in [*parts, arrived] for name in column))
    blocks = [_products(name, arrived, columns, limit) for name in names]
    together = np.stack(blocks) if blocks else np.zeros((0, len(columns) + 1, len(columns) + 1))
    return Geometry(
        names=names,
        microbatches=len(parts),
        products=together[:, 1:, 1:],
        against=together[:, 0, 1:],
        squares=together[:, 0, 0],
        unit=unit,
    )


def _products(name: str, arrived: Mapping[str, Tensor], columns: list[Mapping[str, Tensor]], limit: float | None) -> Vector:
    """Of one parameter: row and column 0 are what arrived."""
    total = torch.zeros(len(columns) + 1, len(columns) + 1, dtype=torch.float64)
    for rows in _rows([column.get(name) for column in [arrived, *columns]]):
        inside = rows if limit is None else rows[:, rows[0].abs() < limit * (1 - FLOAT32_UNIT)]
        total += inside @ inside.T
    return np.asarray(total.numpy())


def _rows(gradients: list[Tensor | None]) -> Iterator[Tensor]:
    """The elements of one parameter's gradients, one gradient a row, block by block."""
    elements = next((gradient.numel() for gradient in gradients if gradient is not None), 0)
    for start in range(0, elements, BLOCK):
        length = min(BLOCK, elements - start)
        yield torch.stack(
            [
                torch.zeros(length, dtype=torch.float64)
                if gradient is None
                else gradient.detach().to_dense().reshape(-1)[start : start + length].to("cpu", torch.float64)
                for gradient in gradients
            ]
        )
