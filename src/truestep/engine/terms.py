"""The terms of a loss, each with its own name, weight and share; a loss that is one tensor is one term without a name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from truestep.engine.weights import LossIs, Naming, Shares, Weight
from truestep.errors import LossError, UpdateError, WeightError

Terms = Mapping[str | None, Any]
Loss = Tensor | Mapping[str, Tensor]
"""A scalar, or several by the names of the terms."""


class Summand(NamedTuple):
    """What one term of one microbatch's loss adds to the window's: `share` times `loss`."""

    term: str | None
    loss: Tensor
    share: float
    weight: float | None = None
    """None for a loss that comes as a share."""


class Added(NamedTuple):
    """A loss that had a backward: of which microbatch, of which term, at which share."""

    microbatch: int
    term: str | None
    share: float
    value: Any
    """A float, or a tensor on its device until the attempt reads all that lies there."""


class TermShares:
    """The shares of every term of a loss, by the window's total of each, or by one that is not known yet.

    >>> shares = TermShares("mean", {"tokens": 120.0, "examples": 8.0})
    >>> loss = torch.zeros((), requires_grad=True)
    >>> first = shares.summands({"tokens": loss, "examples": loss}, {"tokens": 30.0, "examples": 4.0})
    >>> [(summand.term, summand.share) for summand in first]
    [('tokens', 0.25), ('examples', 0.5)]
    """

    def __init__(self, loss_is: LossIs, total: Weight | None) -> None:
        self._each = {term: Shares(loss_is, number) for term, number in _by_term(total).items()}

    def summands(self, loss: Loss, weight: Weight) -> list[Summand]:
        """The terms that weigh something. WeightError and LossError unless total, weight and loss have the same terms."""
        alone = self._each.get(None)
        if alone is not None and isinstance(loss, Tensor) and isinstance(weight, (float, int)):  # nearly every loss
            share = alone.share(weight)
            return [Summand(None, loss, share, weight)] if share else []
        losses, weights = _by_term(loss), _by_term(weight)
        _demand_alike(WeightError, ("the weight", weights), ("the window's total", self._each))
        _demand_alike(LossError, ("the loss", losses), ("its weight", weights))
        shares = {term: each.share(weights[term]) for term, each in self._each.items()}
        return [Summand(term, losses[term], share, weights[term]) for term, share in shares.items() if share]

    def given(self, loss: Tensor, share: float) -> list[Summand]:
        """A loss whose share the caller knows, unless it is 0. WeightError beside weights that are relative to each other."""
        for each in self._each.values():
            share = each.given(share)
        return [Summand(None, loss, share)] if share else []

    @property
    def total(self) -> Weight | None:
        """The window's total weight, by the names of the terms; None where its losses came as shares."""
        totals = {term: each.total for term, each in self._each.items()}
        if None in totals:
            return totals[None]
        return {term: total for term, total in totals.items() if term is not None and total is not None} or None

    @property
    def weightless(self) -> bool:
        """Whether every term was weighed, and weighs nothing."""
        return all(each.total == 0.0 for each in self._each.values())

    def divisor(self) -> float:
        """What the accumulated gradient still has to be divided by; WeightError where a declared total was not the sum."""
        return math.prod(self._divisors())  # of several terms each has a total, and leaves 1

    def _divisors(self) -> Iterator[float]:
        for term, each in self._each.items():
            with Naming(term):
                yield each.divisor()


def joined(loss: Loss, shares: Mapping[str | None, float]) -> Tensor:
    """One tensor: `loss` itself, or the sum of the terms that have a share, at their shares."""
    if isinstance(loss, Tensor):
        return loss
    return sum((loss[term].float() * share for term, share in shares.items() if term is not None), torch.zeros((), device="cpu"))


def losses_by_term(added: Sequence[Added]) -> dict[str, float] | None:
    """The part of each named term in the window's loss; None where no term has a name."""
    parts: dict[str, float] = {}
    for one in added:
        if one.term is not None:
            parts[one.term] = parts.get(one.term, 0.0) + one.share * one.value
    return parts or None


def losses_by_microbatch(added: Sequence[Added]) -> tuple[dict[int, float], dict[int, str]]:
    """The loss of each microbatch, of several terms the first that is not finite; and the names of these."""
    bad = [one for one in reversed(added) if not math.isfinite(one.value)]
    losses = {one.microbatch: one.value for one in (*added, *bad)}
    return losses, {one.microbatch: one.term for one in bad if one.term is not None}


def _by_term(found: Any) -> dict[str | None, Any]:
    return {**found} if isinstance(found, Mapping) else {None: found}


def _demand_alike(error: type[UpdateError], left: tuple[str, Terms], right: tuple[str, Terms]) -> None:
    """`error`, with both lists of names, unless two of loss, weight and total have the same terms."""
    (one, ours), (other, theirs) = left, right
    if ours.keys() == theirs.keys():
        return
    named = ours if None not in ours else theirs
    raise error(
        f"{one} has {_names(ours)}, and {other} has {_names(theirs)}",
        hint="loss, weight and, in a block, update.attempt(total=...) take the same names:"
        f" {{{', '.join(f'{term!r}: ...' for term in named)}}}",
        terms=tuple(ours),
        others=tuple(theirs),
    )


def _names(terms: Terms) -> str:
    return "no named terms" if None in terms else f"the terms {list(terms)}"
