"""Looking for an operation anywhere in a loss's graph."""

from __future__ import annotations

from torch import Tensor


def holds(loss: Tensor, operation: str) -> bool:
    """Whether the backward node of `operation` stands anywhere in the graph of `loss`. Visits each node once.

    >>> import torch
    >>> loss = torch.ones(2, requires_grad=True).exp().sum()
    >>> holds(loss, "ExpBackward0"), holds(loss, "LogBackward0")
    (True, False)
    """
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if node.name() == operation:
            return True
        seen.add(node)
        waiting.extend(below for below, _ in node.next_functions)
    return False
