"""The nodes of a loss's graph, and the question whether an operation is among them."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from truestep.probe.node import Node, below


def nodes(loss: Tensor) -> Iterator[Node]:
    """Every node of the graph of `loss`, each once. Whoever holds them all keeps each the same object."""
    waiting: list[Node] = [loss.grad_fn]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting.extend(child for child, _ in below(node))


def holds(loss: Tensor, operation: str) -> bool:
    """Whether the backward node of `operation` stands anywhere in the graph of `loss`.

    >>> import torch
    >>> loss = torch.ones(2, requires_grad=True).exp().sum()
    >>> holds(loss, "ExpBackward0"), holds(loss, "LogBackward0")
    (True, False)
    """
    return any(node.name() == operation for node in nodes(loss))
