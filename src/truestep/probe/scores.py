"""Telling scores of targets, which are counted one by one, from other elements of a loss."""

from __future__ import annotations

import torch

from truestep.probe.node import LINEAR, SUMS, Node, numel, operation, packed_by_hooks

TARGETS = frozenset({"NllLoss", "NllLoss2D"})
"""Operations that make one score per target."""

PICKS = ("Gather", "Index", "Take")
"""Operations that may pick a target's score from those of all classes."""

NORMALISES = frozenset({"LogSoftmax", "Logsumexp"})

LIMIT = 200
"""Nodes after which the search ends: scores lie a few operations below their sum."""

Path = tuple[tuple[Node, int], ...]
"""The nodes above some output, from a reduction down, each with the position of the input that is gone into."""


def scores(reduction: Node) -> Path | None:
    """The path to the scores that `reduction` adds up; None where its elements are no scores of targets.

    Searched down through linear operations and those that work element by element. Scores are what a cross-entropy gives
    per target, what is picked from log-probabilities, and what is summed over classes of them.
    """
    paths: dict[str, Path] = {}
    stack: list[tuple[Node, Path]] = [(reduction, ())]
    seen = set[Node]()
    while stack and len(seen) < LIMIT:
        node, path = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        named = operation(node)
        if named in TARGETS:
            return path
        paths[named] = path
        if named and named not in NORMALISES:
            stack += reversed([(child, (*path, (node, position))) for child, position in _same_elements(node, named)])
    normalised = NORMALISES & paths.keys() or {"Softmax", "Log"} <= paths.keys()
    kinds = [*(PICKS if normalised else ()), *(SUMS if "LogSoftmax" in paths else ())]
    return next((paths[kind] for kind in kinds if kind in paths), None)


def _same_elements(node: Node, named: str) -> list[tuple[Node, int]]:
    """The nodes below whose elements `node` passes on one by one, or adds up, with their positions."""
    below = [(child, output, position) for position, (child, output) in enumerate(node.next_functions) if child is not None]
    return [(child, at) for child, output, at in below if named in LINEAR or numel(child, output) == numel(node)]


def taking_part(path: Path) -> float | None:
    """How many scores at the end of `path` have a part in what its first node made; None where that cannot be asked.

    Asked of autograd's own backward operations, one by one: no hook runs, and nothing is freed. Not asked of one that has several
    outputs, or saved something that a hook has packed.
    """
    if not path or any(len(node._input_metadata) != 1 or packed_by_hooks(node) for node, _ in path):
        return None
    made = path[0][0]._input_metadata[0]
    gradient = torch.ones(tuple(made.shape), dtype=made.dtype, device=made.device)
    with torch.no_grad():
        for node, position in path:
            below = node(gradient)
            gradient = below[position] if isinstance(below, tuple) else below
    return float(gradient.count_nonzero())
