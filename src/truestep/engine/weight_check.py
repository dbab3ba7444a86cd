"""The check of a declared weight against the denominator that the loss's own graph shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor

from truestep.engine.terms import Summand
from truestep.engine.weights import LossIs
from truestep.errors import WeightError
from truestep.probe.denominator import read_loss
from truestep.probe.term import ROUNDING, Reading, Term

Proportion = tuple[int, float]
"""(1, elements for each unit of weight) or (2, pairs of elements for each pair of units)."""


class WeightCheck:
    """Holds declared weights against the denominators of the first attempt's losses.

    Scored targets have to be met exactly. A mean over other elements may be in proportion (8 examples of 10 outputs each are 80
    elements, 8 examples have 64 pairs), and then in the same proportion in every microbatch of an attempt, which is all that the
    shares need. What the graph does not tell is said in `text`.
    """

    def __init__(self, loss_is: LossIs, *, declared: bool, wanted: bool) -> None:
        self._loss_is = loss_is
        self._hint = "" if declared else "give Update(weight=...): it counts examples where nothing is declared; "
        self._open = wanted and loss_is != "share"
        self._settled: bool | None = None
        self._proportions: list[Proportion] | None = None
        self.text = "not checked: switched off" if not wanted else "not checked: no weighted backward yet"
        if loss_is == "share":
            self.text = "not checked: a share has no denominator of its own"

    def close(self) -> None:
        """The attempt is over. Once settled, the check costs nothing more, and its text says that it was made before.

        A proportion has to last in each later attempt too. One whose reading waits for an accelerator is not read again: it
        lasted for one attempt.
        """
        if self._open and self._settled:
            self.text += ", as read in an earlier attempt"
        self._open = self._open and not self._settled
        self._settled = self._proportions = None

    def __call__(self, loss: Tensor, weight: float) -> None:
        """WeightError, with both numbers, where `weight` is not what `loss` is a mean over."""
        if not self._open:
            return
        reading = read_loss(loss)
        if not reading.terms and reading.unread is None:  # all masked out, or nothing but constants: the next loss may tell more
            self.text = _not_told(reading)
            return
        before, self._settled = self._settled, False  # a refusal leaves the check open
        judged: Callable[[Reading, float], str | None] = self._sum if self._loss_is == "sum" else self._mean
        settled = judged(reading, weight)
        self.text = settled or self._proportion(reading, weight)
        self._settled = before is not False and (settled is not None or reading.waits)

    def _sum(self, reading: Reading, weight: float) -> str:
        if reading.unread is not None:
            return _not_told(reading)
        means = [term for term in reading.terms if term.denominator != 1.0 and _divided(term, weight)]
        loop = 1 < len(means) == weight and means[0].divisors[0] != len(means)  # a sum over examples of what each averages
        if len(means) == len(reading.terms) and not loop:
            raise WeightError(
                f"loss_is='sum' was declared, and the loss is a mean over {means[0].denominator:.10g} ({means[0].node})",
                hint="use loss_is='mean', or reduction='sum' in the loss",
                denominator=means[0].denominator,
            )
        divisors = sorted({term.denominator for term in reading.terms if term.kind == "sum"} - {1.0})
        divided = f" that is divided by {', '.join(f'{divisor:.10g}' for divisor in divisors)}" if divisors else ""
        return f"a sum, as declared{divided}: it has no denominator to hold the weight against"

    def _mean(self, reading: Reading, weight: float) -> str | None:
        """What settles the matter; None where only a proportion can. Less important terms are judged by nobody."""
        matched = [term for term in reading.terms if term.is_over(weight)]
        main = reading.main
        if any(term in main for term in matched) or (matched and not main):
            self._keep(reading, weight, [(1, 1.0)])
            return _equal(matched, reading, weight)
        if not main:
            return _not_told(reading)
        if main[0].scored or main[0].undivided:
            raise self._refusal(main[0], weight)
        return None

    def _proportion(self, reading: Reading, weight: float) -> str:
        term = reading.main[0]
        if not term.counts:
            return f"not checked: the loss is divided by {term.denominator:.10g} ({term.node}), which counts no elements"
        self._keep(reading, weight, [])
        each = term.denominator / weight
        if term.kind == "mean" or term.by_hand:
            return f"in proportion: the loss is a mean over {each:.10g} elements for each unit of weight"
        return f"in proportion: the loss is a sum divided by {each:.10g} for each unit of weight"

    def _keep(self, reading: Reading, weight: float, proportions: Sequence[Proportion]) -> None:
        """Keep the proportions that lasted since the attempt began; WeightError where there is none left."""
        found = [
            *proportions,
            *((power, denominator / weight**power) for denominator in reading.denominators for power in (1, 2)),
        ]
        before = found if self._proportions is None else self._proportions
        self._proportions = [
            (power, value)
            for power, value in before
            if any(power == other and math.isclose(value, again, rel_tol=ROUNDING) for other, again in found)
        ]
        if not self._proportions:
            denominator = reading.denominators[0]
            raise WeightError(
                f"the loss is a mean over {denominator:.10g} elements at a weight of {weight:.10g}, and before over"
                f" {before[0][1]:.10g} for each unit of weight: the weight is not what it is a mean over",
                hint=f"{self._hint}count the elements that the loss averages",
                weight=weight,
                denominator=denominator,
            )

    def _refusal(self, term: Term, weight: float) -> WeightError:
        if term.undivided:
            return WeightError(
                f"loss_is='mean' was declared, and the loss is an undivided sum ({term.node}); its weight is {weight:.10g}",
                hint="use loss_is='sum', or divide the sum by what it is a mean over",
                weight=weight,
            )
        denominator = term.denominators[0]
        shifted = "; labels shifted by one lose one target per sequence" if 0 < weight - denominator <= weight / 2 else ""
        shared = (
            "; a loss divided by the window's total is a share: loss_is='share'"
            if term.kind == "sum" and denominator > weight
            else ""
        )
        return WeightError(
            f"the declared weight is {weight:.10g}, and the loss is a mean over {denominator:.10g} ({term.node})",
            hint=f"{self._hint}count the targets that are scored, those with ignore_index left out{shifted}{shared}",
            weight=weight,
            denominator=denominator,
            node=term.node,
        )


class WeightChecks:
    """The check of each term of a loss, which is one where the loss has no terms."""

    def __init__(self, loss_is: LossIs, *, declared: bool, wanted: bool) -> None:
        self._new = partial(WeightCheck, loss_is, declared=declared, wanted=wanted)
        self._checks: dict[str | None, WeightCheck] = {}

    def __call__(self, summand: Summand) -> None:
        """WeightError where a term's weight is not what its loss is a mean over; a share has no weight to check."""
        if summand.weight is None:
            return
        if summand.term not in self._checks:
            self._checks[summand.term] = self._new()
        self._checks[summand.term](summand.loss, summand.weight)

    def close(self) -> None:
        """The attempt is over."""
        for check in self._checks.values():
            check.close()

    @property
    def text(self) -> str:
        """What was held against what, and how that came out, for each term by its name."""
        texts = [check.text if term is None else f"{term}: {check.text}" for term, check in self._checks.items()]
        return "; ".join(texts) or self._new().text


def _divided(term: Term, weight: float) -> bool:
    return not term.undivided and (term.kind == "mean" or term.by_hand is not None or term.is_over(weight))


def _not_told(reading: Reading) -> str:
    known = [f"{term.node} is over {term.denominators[0]:.10g}" for term in reading.terms]
    return f"not checked: the graph does not tell ({'; '.join([reading.unread or 'no reduction in it', *known])})"


def _equal(matched: Sequence[Term], reading: Reading, weight: float) -> str:
    """What the weight equals, what the matched terms are multiplied by, and what else is in the loss."""
    factors = sorted({term.factor for term in matched} - {1.0})
    carried = f"; the loss carries the factors {', '.join(f'{factor:.6g}' for factor in factors)}" if factors else ""
    others = {f"{term.node} is over {term.denominators[0]:.10g}" for term in reading.terms if term not in matched}
    unread = [] if reading.unread is None else [f"the graph does not tell of {reading.unread}"]
    besides = f"; besides, {', '.join([*sorted(others), *unread])}" if others or unread else ""
    return f"equals the loss's denominator ({matched[0].node}){carried}{besides}"
