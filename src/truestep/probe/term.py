"""A loss as terms: what each is a mean over, and which weights fit it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

ROUNDING = 2.0**-22
"""Relative tolerance of a denominator: a float32 reciprocal and a product with it are off by 2^-23."""

SUMMED = 1e-4
"""Relative tolerance of a denominator that is no integer: a float32 sum of a million class weights is off by up to 6e-5, and what
is added to a count so that it is not 0 is less."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One reduced term of a loss: a sum of elements, and what divides it."""

    node: str
    """The name of its topmost reduction in the graph, such as NllLossBackward0."""
    kind: Literal["mean", "sum"]
    """Whether that reduction divides."""
    divisors: tuple[float, ...]
    """What the elements are divided by, from that reduction down."""
    count: float
    """The product of those divisors that means know."""
    constants: tuple[float, ...] = ()
    """The divisors above that reduction; above a sum only those that can be a count or depend on data: not the 0.3 of a task."""
    scale: float = 1.0
    """The inverse of all constants above that reduction."""
    scored: bool = False
    """The elements are scores of targets: a weight has to count them exactly."""
    elements: float | None = None
    """How many elements have a part in the loss, or their class weights; None where no constant asks for it."""
    penalty: bool = False
    """The term depends on parameters alone, so that no weight is meant for it."""
    rounding: float = ROUNDING
    """The relative precision of the divisors."""
    multiplied: tuple[float, ...] = ()
    """Those of the constants that are the inverse of what was multiplied by."""
    joined: int = 1
    """The equal means of which it was put together, each divided by their number, meant so or not."""

    @property
    def undivided(self) -> bool:
        """The term is a sum that nothing divides; what its elements were multiplied by before it is theirs."""
        return self.kind == "sum" and self.count == 1.0 and not self.constants and self.by_hand is None

    @property
    def counts(self) -> bool:
        """The denominator can be a number of elements."""
        return self.kind == "mean" or is_whole(self.denominator)

    @property
    def denominator(self) -> float:
        """What the term is divided by, the most direct reading; 1 for an undivided sum."""
        if self.by_hand is not None:
            return self.by_hand
        return self.count if self.kind == "mean" else self.count * math.prod(self.constants)

    @property
    def factor(self) -> float:
        """What a mean is multiplied by; 1 for a sum, which its constants divide."""
        return self.scale if self.kind == "mean" else 1.0

    @property
    def importance(self) -> float:
        """What a mean is multiplied by, made by hand or not; for any other sum what each of its elements is."""
        return self.scale * (self.by_hand or 1.0)

    @cached_property
    def by_hand(self) -> float | None:
        """The number of elements, where constants divide by it; None where they do not, or a mean does."""
        if self.elements is None or self._whole == 1.0 or 1.0 < self.count <= self.elements:
            return None
        found = (*map(math.prod, _runs(self._parts)), self._whole)
        return self.elements if any(self._near(self.elements, divisor) for divisor in found) else None

    @cached_property
    def denominators(self) -> tuple[float, ...]:
        """Every number that a weight may be, most direct first.

        A mean of means over 8 and 16 is a mean over 8, over 16 and over 128, by hand too. Of the constants above a sum the
        largest belongs to any denominator: x.sum() / 100 / 4 is divided by 100, and not by 4.
        """
        runs = list(_runs(self._parts))
        if self.by_hand is not None:
            runs = list(_runs(next((run for run in runs if self._near(self.by_hand, math.prod(run))), ())))
        elif self.kind == "sum" and self.constants:
            runs = [run for run in runs if max(self.constants) in run]
        return tuple(dict.fromkeys((self.denominator, *map(math.prod, runs), self._whole)))

    def is_over(self, weight: float) -> bool:
        """Whether `weight` is one of the denominators."""
        return any(self._near(found, weight) for found in self.denominators)

    @property
    def _parts(self) -> tuple[float, ...]:
        return self.divisors if self.kind == "mean" else (*self.constants, *self.divisors)

    @property
    def _whole(self) -> float:
        return math.prod((*self.constants, *self.divisors))

    def _near(self, found: float, weight: float) -> bool:
        tolerance = ROUNDING if is_whole(found) and is_whole(weight) else SUMMED
        return math.isclose(found, weight, rel_tol=max(self.rounding, tolerance))


def _runs(divisors: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    """Neighbouring divisors, the shortest runs first."""
    for length in range(1, len(divisors) + 1):
        for start in range(len(divisors) - length + 1):
            yield divisors[start : start + length]


def is_whole(number: float) -> bool:
    """Whether `number` can be a count."""
    return math.isfinite(number) and math.isclose(number, round(number), rel_tol=ROUNDING)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The terms of a loss; `unread` names what ended the walk first, and is None where all of it was read."""

    terms: tuple[Term, ...]
    unread: str | None
    unread_importance: float = 0.0
    """The largest factor of anything that was not read."""
    waits: bool = False
    """A number was fetched from an accelerator, which had to finish first."""

    @property
    def main(self) -> tuple[Term, ...]:
        """The most important terms, scores and then undivided sums first; empty where something unread is as important."""
        most = max((term.importance for term in self.terms), default=0.0)
        if self.unread is not None and self.unread_importance >= most:
            return ()
        main = [term for term in self.terms if math.isclose(term.importance, most, rel_tol=ROUNDING)]
        return tuple(sorted(main, key=lambda term: (not term.scored, not term.undivided)))

    @property
    def denominators(self) -> tuple[float, ...]:
        """Every number that can be called the loss's denominator, most direct first; empty where the graph does not tell."""
        return tuple(found for term in self.terms for found in term.denominators)
