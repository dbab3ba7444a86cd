"""What a loss is a mean over, read off its graph before backward.

The walk starts at the loss and goes down through scalar arithmetic (sums of terms, factors, divisors, casts, views) to the
nodes that reduce many elements to one. There stands the denominator: the scored targets of a cross-entropy (`ignore_index`
and class weights respected), the elements of a mean, the divisor of a sum. Anything else on the way ends the walk with its name,
for a guess would be worse than none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

PASSED = (
    "ToCopy",
    "View",
    "ReshapeAlias",
    "Squeeze",
    "Unsqueeze",
    "Clone",
    "Alias",
    "Expand",
    "Permute",
    "Transpose",
    "T",
)
"""Nodes that neither add, multiply nor reduce."""

ELEMENTWISE = (*PASSED, "Mul", "Neg", "MaskedFill", "Where", "Div", "Index", "MaskedSelect")
"""Nodes between a reduction and the elements that it reduces."""

SCORED = ("NllLoss", "Gather")
"""Nodes that pick one score per target: what is reduced above them is a count of targets, not of output elements."""

LIMIT = 10_000
"""Nodes after which a walk gives up."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One reduced term of a loss: factor * (sum of elements) / count."""

    kind: Literal["mean", "sum"]
    """Whether a reduction divides by `count` itself, or the term is a sum times `factor`."""
    count: float | None
    """The denominator of a mean; None for a sum, whose denominator is 1 / factor if it has one."""
    factor: float
    scored: bool
    """The reduced elements are scores of targets: `count` is exact and has to be met exactly."""
    node: str
    """The node's name in the graph, such as NllLossBackward0."""

    @property
    def denominator(self) -> float:
        """The count of a mean, the inverse factor of a sum; infinite where the factor is 0."""
        if self.count is not None:
            return self.count
        return abs(1.0 / self.factor) if self.factor else math.inf


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The terms of a loss; `unread` names what ended the walk, and is None where all of it was read."""

    terms: tuple[Term, ...]
    unread: str | None

    @property
    def denominators(self) -> tuple[float, ...]:
        """Every number that can be called the loss's denominator, most direct first; empty where the graph does not tell.

        One term has one: the count of a mean, the inverse factor of a sum. Where several terms are added with equal factors, as
        in a mean over per-example losses, the number of terms and of their elements count too.
        """
        found = [term.denominator for term in self.terms]
        means = [term for term in self.terms if term.kind == "mean" and term.factor]
        if len(means) > 1 and len({(term.node, term.factor) for term in means}) == 1:
            found += [abs(1.0 / means[0].factor), math.fsum(term.denominator for term in means)]
        return tuple(found)


def read_loss(loss: Tensor) -> Reading:
    """The terms of `loss`, a scalar with a graph. Call it before backward, which frees what it reads.

    >>> import torch
    >>> logits = torch.zeros(4, 3, requires_grad=True)
    >>> target = torch.tensor([0, 1, -100, 2])
    >>> read_loss(torch.nn.functional.cross_entropy(logits, target)).denominators
    (3.0,)
    """
    terms: list[Term] = []
    unread: str | None = None
    stack = [(loss.grad_fn, 1.0)]
    for _ in range(LIMIT):
        if not stack:
            return Reading(terms=tuple(terms), unread=unread)
        node, factor = stack.pop()
        if node is None or node.name() == "torch::autograd::AccumulateGrad":
            continue
        term = _term(node, factor)
        if term is not None:
            terms.append(term)
            continue
        below = list(_below(node, factor))
        if not below:
            unread = unread or node.name()
        stack.extend(below)
    return Reading(terms=tuple(terms), unread=f"a graph of more than {LIMIT} nodes above the first reduction")


def _is(node: Any, *names: str) -> bool:
    """Whether `node` is the backward of one of these operations, whatever its variant."""
    stem = node.name().removeprefix("torch::autograd::").rpartition("Backward")[0]
    return any(stem == name for name in names)


def _below(node: Any, factor: float) -> Iterator[tuple[Any, float]]:
    """The nodes under scalar arithmetic, each with its factor to the loss; nothing under any other node."""
    children = [child for child, _ in node.next_functions]
    if _is(node, "Add", "Sub") or (_is(node, *PASSED) and len(children) == 1):
        yield from ((child, factor) for child in children if child is not None)
    elif _is(node, "Neg"):
        yield children[0], -factor
    elif _is(node, "Mul"):
        other = _other(node)
        yield from ((child, factor * other) for child in children if child is not None)
    elif _is(node, "Div") and children[0] is not None:
        yield children[0], factor / (_other(node) or math.nan)


def _other(node: Any) -> float:
    """The constant that a product or quotient holds; 1 where both sides belong to the graph, or it is no scalar."""
    other = getattr(node, "_saved_other", None)
    if other is None:
        other = getattr(node, "_saved_self", None)
    if isinstance(other, Tensor):
        return float(other.detach()) if other.numel() == 1 else 1.0
    return 1.0 if other is None else float(other)


def _term(node: Any, factor: float) -> Term | None:
    """The term that ends at `node`, or None where it reduces nothing."""
    if _is(node, "Mean"):
        return _mean(node, factor, float(node._saved_self_sym_numel), scored=_picks_scores(node))
    if _is(node, "Sum"):
        inner = _mean_below(node)
        if inner is not None:
            return _mean(node, factor, inner, scored=False)
        return Term(kind="sum", count=None, factor=factor, scored=_picks_scores(node), node=node.name())
    reduction = getattr(node, "_saved_reduction", None)
    if reduction is None:
        return None
    scored = _is(node, "NllLoss", "NllLoss2D")
    if reduction == 1:
        count = float(node._saved_total_weight) if scored else float(node._saved_self.numel())
        return _mean(node, factor, count, scored=scored)
    return Term(kind="sum", count=None, factor=factor, scored=scored, node=node.name())


def _mean(node: Any, factor: float, count: float, *, scored: bool) -> Term:
    return Term(kind="mean", count=count, factor=factor, scored=scored, node=node.name())


def _picks_scores(node: Any) -> bool:
    """Whether the elements that `node` reduces are one score per target."""
    return any(node_below.name().startswith(SCORED) for node_below in _elements(node))


def _mean_below(node: Any) -> float | None:
    """The size of the dimensions that a mean reduced right below a sum, as in `x.mean(0).sum()`; None where there is none."""
    for below in _elements(node):
        if _is(below, "Mean") and hasattr(below, "_saved_dim"):
            sizes = below._saved_self_sym_sizes
            signed = (dim - 2**64 if dim >= 2**63 else dim for dim in below._saved_dim)
            return float(math.prod(sizes[dim] for dim in signed))
    return None


def _elements(node: Any) -> Iterator[Any]:
    """The nodes under `node`, down the first branch, through elementwise operations and one node further."""
    while True:
        children = [child for child, _ in node.next_functions if child is not None]
        if not children:
            return
        node = children[0]
        yield node
        if not _is(node, *ELEMENTWISE):
            return
