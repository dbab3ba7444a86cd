"""The first step of a backward that made a gradient not finite: 0 times infinity, or a root's slope at 0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from truestep.probe.finiteness import not_finite
from truestep.probe.graph import nodes
from truestep.probe.node import Node


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Where a gradient stopped being finite."""

    parameter: int
    """The first of the parameters whose gradient is not finite, by its place among them."""
    node: Node
    """The node of the graph that passed on what is not finite, and was given none of it."""
    value: str


def first_fault(loss: Tensor, params: Sequence[Tensor], seed: float) -> Fault | None:
    """Run the backward of `loss` times `seed`, and follow the first bad gradient of `params` up to where it began.

    None where every gradient is finite. The graph is kept, so that what its nodes saved can still be read.
    """
    held = list(nodes(loss))
    passed: dict[Node, dict[int, str]] = {}
    hooks = [node.register_hook(_noting(passed, node)) for node in held]
    try:
        start = torch.full_like(loss, seed)
        gradients = torch.autograd.grad(loss, list(params), start, allow_unused=True, retain_graph=True)
    finally:
        for hook in hooks:
            hook.remove()
    values = [None if gradient is None else not_finite(gradient) for gradient in gradients]
    for index, value in enumerate(values):
        if value is not None:
            leaf = torch.autograd.graph.get_gradient_edge(params[index]).node
            node, first = _climbed(leaf, value, held, passed)
            return Fault(parameter=index, node=node, value=first)
    return None


def _noting(passed: dict[Node, dict[int, str]], node: Node) -> Callable[..., None]:
    """A hook that keeps what is bad of what `node` passes on, by edge."""

    def note(given_on: tuple[Any, ...], given: tuple[Any, ...]) -> None:
        passed[node] = {i: value for i, g in enumerate(given_on) if isinstance(g, Tensor) and (value := not_finite(g))}

    return note


def _climbed(leaf: Node, value: str, nodes: list[Node], passed: dict[Node, dict[int, str]]) -> tuple[Node, str]:
    """From a leaf with a bad gradient up the edges that passed it on, to the node that was given none, or all of it in parts."""
    parents: dict[Node, list[tuple[Node, str]]] = defaultdict(list)
    for node in nodes:
        for i, (child, _) in enumerate(node.next_functions):
            if i in passed.get(node, {}):
                parents[child].append((node, passed[node][i]))
    node = leaf
    while parents[node]:
        node, value = parents[node][0]
    return node, value
