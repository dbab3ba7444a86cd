"""Weights: what a mean loss is a mean over, the shares that follow, and the check against the loss's own denominator."""

from __future__ import annotations

import math
from typing import Any, Literal

from torch import Tensor

from truestep.errors import WeightError
from truestep.probe.denominator import Reading, Term, read_loss

LossIs = Literal["mean", "sum", "share"]
RATIO_LIMIT = 2.0**8
"""Beyond this ratio to the first weight, shares without a known total would cost the backward 8 bits of a format's range."""


def weight_of(found: Any) -> float:
    """A declared weight as a float; WeightError unless it is a finite number of at least 0."""
    try:
        weight = float(found)
    except (TypeError, ValueError, RuntimeError) as error:
        raise WeightError(
            f"a weight is one number, and this is a {type(found).__name__}: {error}",
            hint="return an int, a float or a tensor with one element",
        ) from error
    if not (math.isfinite(weight) and weight >= 0.0):
        raise WeightError(
            f"a weight is a finite number of at least 0, and this is {weight}",
            hint="count what the loss is a mean over: examples, or scored tokens",
            weight=weight,
        )
    return weight


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

    def given(self, share: float) -> float:
        """A share that the caller knows; WeightError after weights that are only relative to each other."""
        if self._sum is not None and self._declared is None:
            raise WeightError(
                "a share follows weights without a total", hint="declare the window's total: update.attempt(total=...)"
            )
        return share

    def share(self, weight: float) -> float:
        """The factor of a loss of this weight; WeightError where it is too far from the first to be relative to it."""
        self._sum = (self._sum or 0.0) + weight
        if weight == 0.0:
            return 0.0
        if self._reference is None:
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

    @property
    def total(self) -> float | None:
        """The window's total weight; None where its losses came as shares."""
        return self._sum if self._declared is None else self._declared

    def divisor(self) -> float:
        """What the accumulated gradient still has to be divided by; WeightError where the declared total was not the sum."""
        if self._sum is None:
            return 1.0
        if self._declared is None:
            return self._sum / self._reference if self._reference else 1.0
        if not math.isclose(self._declared, self._sum, rel_tol=1e-9):
            raise WeightError(
                f"the attempt declared a total weight of {self._declared:g}, and its microbatches add up to {self._sum:g}",
                hint="sum the weights of all microbatches of the window before the first backward",
                total=self._declared,
                found=self._sum,
            )
        return 1.0


class WeightCheck:
    """Holds declared weights against the denominators of the first attempt's losses.

    Scored targets have to be met exactly. A mean over output elements may be in proportion (8 examples of 10 outputs each are 80
    elements), and then in the same proportion in every microbatch. What the graph does not tell is said in `text`.
    """

    def __init__(self, loss_is: LossIs, *, declared: bool, wanted: bool) -> None:
        self._loss_is = loss_is
        self._hint = "" if declared else "give Update(weight=...): it counts examples where nothing is declared; "
        self._open = wanted and loss_is != "share"
        self._proportion: float | None = None
        self.text = "not checked: switched off" if not wanted else "not checked: no weighted backward yet"
        if loss_is == "share":
            self.text = "not checked: a share has no denominator of its own"

    def close(self) -> None:
        """After the first attempt the check costs nothing more, except where it is a proportion that has to last."""
        self._open = self._proportion is not None and self._proportion != 1.0

    def __call__(self, loss: Tensor, weight: float) -> None:
        """WeightError, with both numbers, where `weight` is not what `loss` is a mean over."""
        if not self._open:
            return
        reading = read_loss(loss)
        if self._loss_is == "sum":
            self._check_sum(reading)
        else:
            self._check_mean(reading, weight)

    def _check_sum(self, reading: Reading) -> None:
        means = [term for term in reading.terms if term.kind == "mean" and term.count != 1.0]
        if means and len(means) == len(reading.terms):
            raise WeightError(
                f"loss_is='sum' was declared, and the loss is a mean over {means[0].count:g} ({means[0].node})",
                hint="use loss_is='mean', or reduction='sum' in the loss",
                denominator=means[0].count,
            )
        self.text = "a sum, as declared: it has no denominator to hold the weight against"

    def _check_mean(self, reading: Reading, weight: float) -> None:
        if any(math.isclose(found, weight, rel_tol=1e-6) for found in reading.denominators):
            self._keep_proportion(1.0, weight)
            factors = sorted({term.factor for term in reading.terms if term.kind == "mean"} - {1.0})
            carried = f"; the loss carries the factors {factors}" if factors else ""
            self.text = f"equals the loss's denominator ({_main(reading).node}){carried}"
        elif reading.unread is not None or not reading.denominators:
            self.text = f"not checked: the graph does not tell ({reading.unread or 'no reduction in it'})"
        elif _main(reading).kind == "mean" and not _main(reading).scored:
            proportion = (_main(reading).count or 0.0) / weight
            self._keep_proportion(proportion, weight)
            self.text = f"in proportion: the loss is a mean over {proportion:g} elements for each unit of weight"
        else:
            raise self._refusal(_main(reading), weight)

    def _keep_proportion(self, proportion: float, weight: float) -> None:
        if self._proportion is not None and not math.isclose(self._proportion, proportion, rel_tol=1e-6):
            raise WeightError(
                f"the loss is a mean over {proportion * weight:g} elements at a weight of {weight:g}, and before over"
                f" {self._proportion:g} for each unit of weight: the weight is not what it is a mean over",
                hint=f"{self._hint}count the elements that the loss averages",
                weight=weight,
                denominator=proportion * weight,
            )
        self._proportion = proportion

    def _refusal(self, term: Term, weight: float) -> WeightError:
        if term.kind == "sum" and abs(term.factor) == 1.0:
            return WeightError(
                f"loss_is='mean' was declared, and the loss is an undivided sum ({term.node}); its weight is {weight:g}",
                hint="use loss_is='sum', or divide the sum by what it is a mean over",
                weight=weight,
            )
        denominator = term.denominator
        shifted = "; labels shifted by one lose one target per sequence" if 0 < weight - denominator <= weight / 2 else ""
        return WeightError(
            f"the declared weight is {weight:g}, and the loss is a mean over {denominator:g} ({term.node})",
            hint=f"{self._hint}count the targets that are scored, those with ignore_index left out{shifted}",
            weight=weight,
            denominator=denominator,
            node=term.node,
        )


def _main(reading: Reading) -> Term:
    """The term that a weight is meant for: one that scores targets, else one that is divided, else the first."""
    return min(reading.terms, key=lambda term: (not term.scored, term.denominator == 1.0, term.kind == "sum"))
