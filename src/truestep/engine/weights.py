"""Weights: what a mean loss is a mean over, and the shares that follow."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from truestep.errors import UpdateError, WeightError

Weight = float | Mapping[str, float]
"""One number, or one for each term of a loss by its name."""
LossIs = Literal["mean", "sum", "share"]
RATIO_LIMIT = 2.0**8
"""Beyond this ratio to the first weight, shares without a known total would cost the backward 8 bits of a format's range."""


class Naming:
    """An error that passes tells which term of the loss it is about; nothing of a loss that has none."""

    def __init__(self, term: str | None) -> None:
        self._term = term

    def __enter__(self) -> None:
        """Nothing yet."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """The name becomes a fact of the error."""
        if self._term is not None and isinstance(error, UpdateError):
            error.facts["term"] = self._term


def weight_of(found: Any) -> Weight:
    """A declared weight as a float, or as one for each term; WeightError unless each is a finite number of at least 0."""
    if isinstance(found, (float, int)) and 0.0 <= found <= sys.float_info.max:  # nearly every one
        return float(found)
    if not isinstance(found, Mapping):
        return _number(found)
    if not found or not all(isinstance(term, str) for term in found):
        raise WeightError(f"the weights of several terms have their names, and these are {found!r}", hint="name each term")
    numbers = {}
    for term, weight in found.items():
        with Naming(term):
            numbers[term] = _number(weight)
    return numbers


def sum_of(weights: Sequence[Weight]) -> Weight:
    """The sum of weights, term by term; WeightError where not all of them have the same terms, and beyond float64."""
    numbers = [weight for weight in weights if isinstance(weight, (float, int))]
    if len(numbers) == len(weights):
        return weight_of(sum(numbers))
    named = [weight for weight in weights if isinstance(weight, Mapping)]
    if numbers or any(weight.keys() != named[0].keys() for weight in named):
        found = sorted({str(list(weight)) if isinstance(weight, Mapping) else "one number" for weight in weights})
        raise WeightError(
            f"the weights of one window have different terms: {', '.join(found)}",
            hint="give every microbatch a weight for each term; 0 where the term has nothing in it",
        )
    return weight_of({term: sum(weight[term] for weight in named) for term in named[0]})


def _number(found: Any) -> float:
    weight = _real("weight", found)
    if not (math.isfinite(weight) and weight >= 0.0):
        raise WeightError(
            f"a weight is a finite number of at least 0, and this is {weight}",
            hint="count what the loss is a mean over: examples, or scored tokens",
            weight=weight,
        )
    return weight


def _real(name: str, found: Any) -> float:
    try:
        return float(found)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise WeightError(
            f"a {name} is one number, and this is a {type(found).__name__}: {error}",
            hint="give an int, a float or a tensor with one element",
        ) from error


class Shares:
    """The share of each microbatch of one attempt in the window's loss, and the divisor that is left for the end.

    With a known total, a mean over weight w has the share w / total and a sum 1 / total, and nothing is left to divide.
    Without one, weights are taken relative to the first, and `divisor` divides once at the end.

    >>> shares = Shares("mean", total=None)
    >>> shares.share(100.0), shares.share(10.0), shares.divisor()
    (1.0, 0.1, 1.1)
    """

    def __init__(self, loss_is: LossIs, total: float | None) -> None:
        self._loss_is = loss_is
        self._declared = total
        self._reference = total
        self._sum: float | None = None
        self._has_given = False

    def given(self, share: float) -> float:
        """A share that the caller knows, as a float; WeightError beside weights that are only relative to each other."""
        share = _real("share", share)
        if not math.isfinite(share):
            raise WeightError(
                f"a share is a finite number, and this is {share}", hint="give the loss's factor in the window's loss"
            )
        self._has_given = True
        self._demand_one_kind()
        return share

    def share(self, weight: float) -> float:
        """The factor of a loss of this weight; WeightError where it is too far from the first to be relative to it."""
        self._sum = (self._sum or 0.0) + weight
        self._demand_one_kind()
        if weight == 0.0:
            return 0.0
        if not self._reference:
            self._reference = weight
        ratio = weight / self._reference
        if self._declared is None and not 1.0 / RATIO_LIMIT <= ratio <= RATIO_LIMIT:
            raise WeightError(
                f"a weight of {weight:g} follows a first one of {self._reference:g}: too far apart to be relative to it",
                hint="declare the window's total: update.attempt(total=...)",
                weight=weight,
                first=self._reference,
            )
        return ratio if self._loss_is == "mean" else 1.0 / self._reference

    def _demand_one_kind(self) -> None:
        if self._has_given and self._sum is not None and self._declared is None:
            raise WeightError(
                "an attempt mixes shares, which are absolute, with weights that are relative to the first",
                hint="declare the window's total: update.attempt(total=...)",
            )

    @property
    def total(self) -> float | None:
        """The window's total weight; None where its losses came as shares."""
        return self._sum if self._declared is None or self._sum is None else self._declared

    def divisor(self) -> float:
        """What the accumulated gradient still has to be divided by; WeightError where the declared total was not the sum."""
        if self._sum is None:
            return 1.0
        if self._declared is None:
            return _number(self._sum) / self._reference if self._reference else 1.0
        if not math.isclose(self._declared, self._sum, rel_tol=1e-9):
            raise WeightError(
                f"the attempt declared a total weight of {self._declared:g}, and its microbatches add up to {self._sum:g}",
                hint="sum the weights of all microbatches of the window before the first backward",
                total=self._declared,
                found=self._sum,
            )
        return 1.0
