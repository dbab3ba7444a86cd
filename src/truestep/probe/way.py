"""A way down a loss's graph, one linear operation at a time, with the divisors met on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from truestep.probe.node import ADDS, LAYS_OUT, MEANS, SUMS, Constant, Node, Unread, constant, numel, operation, saved
from truestep.probe.penalty import of_parameters
from truestep.probe.scores import TARGETS, Path
from truestep.probe.term import ROUNDING

PER_EXAMPLE = frozenset({"MultiMarginLoss", "MultilabelMarginLoss"})
"""Fused losses with one element for each row of their input."""

KEPT = 8
"""Constants on one way that are told apart."""

Trail = tuple[Any, Node, int]
"""Where a way went before its last node, that node, and the position of the input that it took."""


class Above(NamedTuple):
    """A divisor above the topmost reduction."""

    divisor: float
    literal: bool
    """It is a number of Python."""
    multiplied: bool
    """It was multiplied by, and is the inverse of that."""


NOTHING = Above(1.0, literal=True, multiplied=False)


@dataclass(frozen=True)
class Way:
    """A way from the loss down to an output of `node`."""

    node: Node
    output: int = 0
    reduction: Node = None
    """The topmost one that has more than one element to reduce, or is all there is."""
    divides: bool = False
    of_one: tuple[Node, bool] | None = None
    """A reduction of one element, and whether it divides: all there is in a microbatch of one."""
    constants: tuple[Above, ...] = ()
    """Divisors above the topmost reduction."""
    divisors: tuple[float, ...] = ()
    """Divisors from it down."""
    means: tuple[float, ...] = ()
    """Those of them that a mean knows."""
    fused: float | None = None
    """How many elements a fused loss reduces at the end."""
    masked: bool = False
    rounding: float = ROUNDING
    waits: bool = False
    trail: Trail | None = field(default=None, compare=False)
    """From the topmost reduction to the node."""

    @property
    def path(self) -> Path:
        """The nodes from the topmost reduction down."""
        nodes, trail = [], self.trail
        while trail is not None:
            trail, node, position = trail
            nodes.append((node, position))
        return tuple(reversed(nodes))

    @property
    def scale(self) -> float:
        """The inverse of the constants above; infinite where one of them is 0."""
        divisor = math.prod(each.divisor for each in self.constants)
        return 1.0 / divisor if divisor else math.inf

    def to(self, position: int) -> Way:
        """On to the node at this position below, unchanged."""
        child, output = self.node.next_functions[position]
        return replace(
            self, node=child, output=output, trail=None if self.reduction is None else (self.trail, self.node, position)
        )

    def reduced(self, count: float, *, divides: bool) -> Way:
        """Past a reduction of `count` elements to one."""
        if count == 1.0:
            return replace(self, of_one=self.of_one or (self.node, divides))
        way = self if self.reduction is not None else replace(self, reduction=self.node, divides=divides)
        return replace(way, divisors=(*way.divisors, count), means=(*way.means, count)) if divides else way

    def divided(self, divisor: float, found: Constant, *, multiplied: bool = False) -> Way:
        """Past a constant; beyond the first KEPT, constants are kept as one."""
        constants, divisors = self.constants, self.divisors
        if divisor != 1.0 and self.reduction is None:
            more, last = (constants, NOTHING) if len(constants) < KEPT else (constants[:-1], constants[-1])
            above = Above(last.divisor * divisor, last.literal and found.literal, multiplied or last.multiplied)
            constants = (*more, above)
        elif divisor != 1.0:
            divisors = (*divisors, divisor) if len(divisors) < KEPT else (*divisors[:-1], divisors[-1] * divisor)
        return replace(
            self,
            constants=constants,
            divisors=divisors,
            masked=self.masked or found.masks,
            rounding=max(self.rounding, found.rounding),
            waits=self.waits or found.waits,
        )


def onward(way: Way) -> list[Way] | None:
    """The ways below a linear operation; None where this one is not linear. Raises Unread."""
    node, named = way.node, operation(way.node)
    positions = [position for position, (child, _) in enumerate(node.next_functions) if child is not None]
    if named in ("Mul", "Div"):
        return _past_constant(way, positions, named)
    if named in SUMS | MEANS:
        child, output = node.next_functions[0]
        reduces = len(child._input_metadata[output].shape) > 0  # .mean() of a scalar does nothing
        count = numel(child, output) / max(1, numel(node))
        return [(way.reduced(count, divides=named in MEANS) if reduces else way).to(0)]
    if named in ("Add", "Sub"):
        alpha = constant(getattr(node, "_saved_alpha", 1))
        scaled = way.divided(1.0 / alpha.value, alpha, multiplied=True) if alpha.value else None
        return [at.to(position) for position in positions if (at := scaled if position else way) is not None]
    return [way.to(position) for position in positions] if named in LAYS_OUT | ADDS else None


def _past_constant(way: Way, positions: list[int], named: str) -> list[Way] | None:
    """The way below a product or quotient with a constant or a learned factor; None where both sides depend on data."""
    node = way.node
    if len(positions) > 1:
        positions = [position for position in positions if not of_parameters(node.next_functions[position][0])]
    if len(positions) != 1 or (named == "Div" and positions[0] == 1):
        return None
    found = constant(saved(node, "self" if positions[0] else "other"))
    if named == "Mul" and found.value == 0.0:
        return []
    divisor = found.value if named == "Div" else 1.0 / found.value
    return [way.divided(divisor, found, multiplied=named == "Mul").to(positions[0])]


def ended(way: Way) -> Way:
    """At its last node, past the reduction that a fused loss ends with. A reduction of one counts where there is no other."""
    if way.node.name() == "GatherBackward":
        raise Unread("DataParallel gathered the losses of its devices")
    reduction = getattr(way.node, "_saved_reduction", 0) if operation(way.node) else 0
    if reduction:
        elements = _elements(way.node)
        way = replace(way.reduced(elements, divides=reduction == 1), fused=elements)
    if way.reduction is None and way.of_one is not None:
        way = replace(way, reduction=way.of_one[0], divides=way.of_one[1])
    return way


def _elements(node: Node) -> float:
    """The number of elements that a fused loss reduces, or the sum of their class weights."""
    if operation(node) in TARGETS:
        return float(saved(node, "total_weight"))
    child, output = next(edge for edge in node.next_functions if edge[0] is not None)
    shape = child._input_metadata[output].shape
    if operation(node) in PER_EXAMPLE:
        return float(shape[0]) if len(shape) > 1 else 1.0
    return float(math.prod(shape))
