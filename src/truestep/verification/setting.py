"""What was declared of a window, and a mistake by the coefficients that it leaves. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from truestep.pages.words import significant
from truestep.verification.coefficients import Geometry, Vector
from truestep.verification.cut import Cut, Length, cut_of


@dataclass(frozen=True, kw_only=True)
class Account:
    """One mistake, and what it makes of a window."""

    kind: str
    coefficients: Vector
    """Of each microbatch's gradient, and of what arrived before where the mistake is about that."""
    factor: float | None
    """What arrives over what should have, where that is one number."""
    sentence: str
    fix: str
    rule: str | None = None
    """The rule of `truestep audit` that finds the place."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What was declared of a window, beside the gradients themselves."""

    weights: Vector
    scale: float | None
    limit: float | None
    """Of the norm to clip to; None where none was declared."""
    whole: Geometry
    """Of all parameters: what a clip goes by."""
    gradients: Geometry
    """Of those that are looked at."""
    lengths: tuple[Length, ...] = ()
    """Of every attempt that stepped, this one among them."""
    held: bool = False
    """Whether the last column is what `.grad` still held when the window began; else what arrived at the attempt before."""

    @property
    def count(self) -> int:
        """Microbatches of the window."""
        return len(self.weights)

    @property
    def total(self) -> float:
        """Weight of the window."""
        return float(self.weights.sum())

    @property
    def shares(self) -> Vector:
        """What the coefficients have to be before any clip: w_k / W."""
        return np.asarray(self.weights / self.total)

    @property
    def equal(self) -> bool:
        """Whether all microbatches weigh the same."""
        return bool((self.weights == self.weights[0]).all())

    @property
    def scaled(self) -> float | None:
        """The loss scale, where there is one that changes anything."""
        return None if self.scale in (None, 1.0) else self.scale

    @property
    def norm(self) -> float:
        """Of the right gradient before any clip."""
        return self.whole.norm(self.shares)

    def clipped(self, coefficients: Vector) -> Vector:
        """The coefficients after the declared clip."""
        norm = self.whole.norm(coefficients)
        return coefficients if self.limit is None or norm <= self.limit else np.asarray(coefficients * (self.limit / norm))

    @cached_property
    def cut(self) -> Cut | None:
        """What this attempt was cut to, where all attempts together say that it was."""
        return cut_of(self.lengths, Length(self.whole.arrived, self.whole.norm(self.expected), self.scale))

    @property
    def expected(self) -> Vector:
        """What the coefficients have to be."""
        return self.clipped(self.shares)


def numbers(values: Vector | list[float]) -> str:
    """As a sentence has them; the first eight.

    >>> numbers([0.25, 1 / 3])
    '0.250, 0.333'
    """
    shown = [significant(float(value)) for value in values[:8]]
    return ", ".join([*shown, *(["..."] if len(values) > len(shown) else [])])
