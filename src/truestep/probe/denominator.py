"""What a loss is a mean over, read off its graph before backward.

The walk starts at the loss and goes down through everything linear (sums of terms, constant factors and divisors, means, casts,
views, masks) to the elements: what a layer or a fused loss put out. On the way it collects what the elements are divided by: the
scored targets of a cross-entropy (`ignore_index` and class weights respected), the elements of a mean, the divisor of a sum. A
way that meets no reduction ends with the name of what ended it, for a guess would be worse than none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from torch import Tensor

from truestep.probe.node import Unread, numel
from truestep.probe.penalty import of_parameters
from truestep.probe.scores import Path, scores, taking_part
from truestep.probe.term import ROUNDING, Reading, Term, is_whole
from truestep.probe.way import Way, ended, onward

LIMIT = 10_000
"""Nodes after which a walk gives up; about 0.1 s."""


def read_loss(loss: Tensor) -> Reading:
    """The terms of `loss`, a scalar with a graph. Call it before backward, which frees what it reads.

    Penalties are terms only where there is nothing else. Numbers that `saved_tensors_hooks` or a checkpoint hold are not read.

    >>> import torch
    >>> logits = torch.zeros(4, 3, requires_grad=True)
    >>> target = torch.tensor([0, 1, -100, 2])
    >>> read_loss(torch.nn.functional.cross_entropy(logits, target)).denominators
    (3.0,)
    """
    ends, unread = list[Way](), list[tuple[str, float]]()
    stack = [Way(loss.grad_fn, loss.output_nr)] if loss.grad_fn is not None else []
    seen = set[Way]()
    while stack and len(seen) < LIMIT:
        way = stack.pop()
        if way in seen:
            continue
        seen.add(way)
        try:
            stack.extend(reversed(_visit(way, ends, unread)))
        except Unread as reason:
            unread.append((str(reason), way.scale))
    if stack:
        name = f"a graph of more than {LIMIT} nodes above the elements"
        return Reading(terms=(), unread=name, unread_importance=math.inf)
    terms = _terms(ends)
    counted = loss.device.type != "cpu" and any(term.elements is not None for term in terms)
    return Reading(
        terms=terms,
        unread=unread[0][0] if unread else None,
        unread_importance=max((scale for _, scale in unread), default=0.0),
        waits=counted or any(way.waits for way in seen),
    )


def _visit(way: Way, ends: list[Way], unread: list[tuple[str, float]]) -> list[Way]:
    """The ways on; none, and a note, where `way` ends. Scalars that were stacked are elements, and may be anything themselves."""
    on = onward(way)
    if on is not None:
        return on
    last = ended(way)
    if last.reduction is not None:
        ends.append(last)
    scalar = last.fused is None and last.of_one is None and numel(last.node, last.output) == 1
    if (last.reduction is None or scalar) and not of_parameters(last.node):
        unread.append((last.node.name(), last.scale))
    return []


def _terms(ends: Iterable[Way]) -> tuple[Term, ...]:
    """One term for each reduction and what divides it; penalties only where there is nothing else.

    Several ways below one reduction are parts of its elements: a constant that they do not share is a part's own.
    """
    groups: dict[tuple[object, ...], list[Way]] = {}
    for way in ends:
        above = tuple((each.divisor, each.literal) for each in way.constants)
        groups.setdefault((way.reduction, above, way.means), []).append(way)
    paths = {reduction: scores(reduction) for reduction, *_ in groups}
    terms = _folded([_term(ways, paths[ways[0].reduction]) for ways in groups.values()])
    return tuple(term for term in terms if not term.penalty) or tuple(terms)


def _term(ways: list[Way], path: Path | None) -> Term:
    way, scored = ways[0], path is not None
    divisors = way.divisors if len({way.divisors for way in ways}) == 1 else way.means
    elements = way.fused if scored or not way.divides else None
    asked = not way.divides or scored or any(way.masked for way in ways)
    if way.fused is None and asked and (way.constants or divisors != way.means):
        elements = taking_part(path or way.path)
    above = [each for each in way.constants if way.divides or not each.literal or is_whole(each.divisor)]
    return Term(
        node=way.reduction.name(),
        kind="mean" if way.divides else "sum",
        divisors=divisors,
        count=math.prod(way.means),
        constants=tuple(each.divisor for each in above),
        multiplied=tuple(each.divisor for each in above if each.multiplied),
        scale=way.scale,
        scored=scored,
        elements=elements,
        penalty=not scored and all(of_parameters(way.node) for way in ways),
        rounding=max(way.rounding for way in ways),
    )


def _folded(terms: list[Term]) -> list[Term]:
    """Equal means of which each is divided by their number, as in a loop over examples, are a mean over themselves.

    They need not be: a sum of two losses, divided by two microbatches, looks the same. `joined` says how many there were.
    """
    alike = Counter(term.constants for term in terms if term.kind == "mean")
    return [_over(term, alike[term.constants]) for term in terms]


def _over(term: Term, number: int) -> Term:
    if number < 2 or term.kind == "sum" or not math.isclose(math.prod(term.constants), number, rel_tol=ROUNDING):
        return term
    divisors, count = (float(number), *term.divisors), term.count * number
    return replace(term, constants=(), multiplied=(), scale=1.0, elements=None, divisors=divisors, count=count, joined=number)
