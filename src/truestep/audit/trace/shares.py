"""What a loss gives each of its elements, read off its graph."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from torch import Tensor

from truestep.audit.events import Share
from truestep.audit.trace.taints import constant
from truestep.probe.denominator import read_loss
from truestep.probe.term import Reading, Term

ROUNDING = 1e-5
"""Relative difference of two factors that are the same number."""

LEAST_KEPT = 2.0
"""The inverse of the least part that label smoothing leaves to the label itself."""


def read_roots(roots: Sequence[Tensor], seeds: Any, scale: float) -> tuple[tuple[Share, ...], str | None]:
    """The shares of all roots of a backward, each at the number that it begins with: 1 where none is given."""
    given = [seeds] * len(roots) if seeds is None or isinstance(seeds, Tensor) else list(seeds)
    shares: tuple[Share, ...] = ()
    for root, seed in zip(roots, given, strict=False):
        factor = 1.0 if seed is None else constant(seed)
        if factor is None:
            return (), "a backward that begins with several numbers"
        found, unread = read_shares(root, scale, factor)
        if unread is not None:
            return (), unread
        shares += found
    return shares, None


def read_shares(root: Tensor, scale: float, seed: float = 1.0) -> tuple[tuple[Share, ...], str | None]:
    """The shares of the terms of `root`, its main one first, the loss scale taken out; its backward begins with `seed`.

    None, and why, where the graph does not tell.
    """
    reading = read_loss(root)
    main = _main(reading, scale)
    if isinstance(main, str):
        return (), main
    shares = [share for term in reading.terms if (share := _share(term, scale)) is not None]
    others = [share for share in shares if share != main]
    alike = sum(_as_heavy(share, main) for share in shares)
    read = dict.fromkeys((replace(_mixed(_smoothed(main, others), others), alike=alike), *others))
    return tuple(_seeded(share, seed) for share in read), None


def _seeded(share: Share, seed: float) -> Share:
    """As if the loss had been multiplied by the number that its backward begins with."""
    if seed in (0.0, 1.0):
        return share
    divisors, multiplied = (*share.divisors, 1 / seed), (*share.multiplied, 1 / seed)
    return replace(share, weight=share.weight * seed, divisors=divisors, multiplied=multiplied)


def _smoothed(main: Share, others: list[Share]) -> Share:
    """`main` with the part of its weight that label smoothing gave to the mean over all classes, a term of the same elements.

    With smoothing e the loss is (1 - e) * (its own term) + e / classes * (the sum over the classes).
    """
    left = math.prod(main.divisors) * main.weight
    for kept in (*(1 / each for each in main.divisors if 1 < each < LEAST_KEPT), left, left * main.elements):
        for other in others:
            given = set(other.divisors) - set(main.divisors)
            classes = [each * (1 - kept) for each in given]
            whole = any(round(each) > 1 and math.isclose(each, round(each), rel_tol=1e-4) for each in classes)
            if 1 / LEAST_KEPT < kept < 1 - ROUNDING and whole and other.elements == main.elements:
                weight, divisors = main.weight / kept, _but(main.divisors, 1 / kept)
                return replace(main, weight=weight, divisors=divisors, multiplied=_but(main.multiplied, 1 / kept))
    return main


def _mixed(main: Share, others: list[Share]) -> Share:
    """`main` as the whole of a mixture: terms of one kind, over as many elements, whose coefficients add up to 1."""
    terms = [main, *(each for each in others if (each.node, each.elements) == (main.node, main.elements))]
    common = reduce(operator.and_, (Counter(each.divisors) for each in terms))
    kept = [1 / math.prod((Counter(each.divisors) - common).elements()) for each in terms]
    if len(terms) == 1 or not math.isclose(sum(kept), 1.0, rel_tol=ROUNDING):
        return main
    multiplied = tuple(each for each in main.multiplied if each in common)
    return replace(main, weight=main.weight / kept[0], divisors=tuple(common.elements()), multiplied=multiplied)


def _but(divisors: tuple[float, ...], one: float) -> tuple[float, ...]:
    return tuple(each for each in divisors if not math.isclose(each, one, rel_tol=ROUNDING))


def _as_heavy(share: Share, main: Share) -> bool:
    return math.isclose(share.weight * share.elements, main.weight * main.elements, rel_tol=ROUNDING)


def _main(reading: Reading, scale: float) -> Share | str:
    if not reading.main:
        return reading.unread or "a graph without a reduction"
    shares = [share for term in reading.main if (share := _share(term, scale)) is not None]
    return shares[0] if shares else f"{reading.main[0].node}: its elements cannot be counted"


def _share(term: Term, scale: float) -> Share | None:
    """For a mean, (what it is multiplied by) / (elements); for a sum what multiplies it, over the elements that it adds."""
    elements = term.count if term.kind == "mean" else term.elements
    if elements is None or not math.isfinite(elements) or elements <= 0:
        return None
    return Share(
        weight=term.scale / scale / term.count,
        elements=elements,
        node=term.node,
        divisors=_own(term.constants, scale),
        multiplied=_own(term.multiplied, scale),
        summed=term.kind == "sum",
        joined=term.joined,
    )


def _own(constants: Sequence[float], scale: float) -> tuple[float, ...]:
    """The constants above the reduction; the loss scale, one of them, is not the script's own."""
    left = list(constants)
    own = next((each for each in left if scale != 1.0 and math.isclose(each * scale, 1.0, rel_tol=ROUNDING)), None)
    if own is not None:
        left.remove(own)
    return tuple(each for each in left if not math.isclose(each, 1.0, rel_tol=ROUNDING))
