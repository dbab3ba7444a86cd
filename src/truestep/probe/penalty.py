"""Telling what depends on parameters alone, a penalty or a learned factor, from what depends on data."""

from __future__ import annotations

from truestep.probe.node import ADDS, LAYS_OUT, LEAF, MEANS, SUMS, Node, below, numel, operation

KEPT = ADDS | LAYS_OUT | SUMS | MEANS | {"Mul", "Div", "Norm", "LinalgVectorNorm"}

LIMIT = 1000
"""Nodes after which the answer is no."""


def of_parameters(node: Node) -> bool:
    """Whether what `node` made is computed from parameters element by element, as a penalty or a learned factor is.

    A layer mixes elements, so that a model's output is told from a penalty. The one doubtful case, a model of elementwise
    products such as `w * x`, looks like a penalty.
    """
    stack, seen = [node], set[Node]()
    while stack and len(seen) < LIMIT:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        children = list(below(node))
        elementwise = len(children) == 1 and numel(*children[0]) == numel(node)
        if not (operation(node) in KEPT or operation(node) == LEAF or (elementwise and operation(node))):
            return False
        stack += [child for child, _ in children]
    return not stack
