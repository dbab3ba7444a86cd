"""Float32 sums of narrow gradients over the backwards of a window."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter


class Sums:
    """Float32 sums of narrow gradients, begun with a window's second backward: a bfloat16 sum of 512 equal terms stays at 256.

    Each parameter's gradient is added as soon as a backward has made it, and given up: 4 bytes a parameter, and no 2 beside them.
    """

    def __init__(self) -> None:
        self._leaves: dict[int, Tensor] = {}
        self._sums: dict[int, Tensor] = {}
        self._backwards = 0
        self._open = False

    def watch(self, leaves: Sequence[Parameter]) -> None:
        """Take the gradients of these parameters too, from the next window on."""
        for leaf in leaves:
            if id(leaf) not in self._leaves:
                self._leaves[id(leaf)] = leaf
                hook = leaf.register_post_accumulate_grad_hook(_folding_into(self))  # type: ignore[no-untyped-call]  # torch's is
                weakref.finalize(self, hook.remove)

    @contextmanager
    def adding(self) -> Iterator[None]:
        """One backward. The first of a window leaves its gradients where they are, in the narrow format."""
        if self._backwards == 1:
            for leaf in self._leaves.values():
                self._fold(leaf)
        try:
            self._open = True
            yield
        finally:
            self._open = False
        self._backwards += 1

    def take(self, leaf: Parameter) -> Tensor | None:
        """The window's gradient of `leaf` in float32, which is then given up here."""
        self._fold(leaf)
        return self._sums.pop(id(leaf), None)

    def clear(self) -> None:
        """Begin a window."""
        self._sums.clear()
        self._backwards = 0

    def _fold(self, leaf: Tensor) -> None:
        gradient, leaf.grad = leaf.grad, None
        if gradient is None:
            return
        if gradient.layout is torch.sparse_coo:
            gradient = gradient.coalesce()
        held = self._sums.get(id(leaf))
        if held is None:
            self._sums[id(leaf)] = gradient.float()
        else:
            self._sums[id(leaf)] = held.add_(gradient) if held.layout is gradient.layout else held + gradient


def _folding_into(sums: Sums) -> Callable[[Tensor], None]:
    """A hook that adds a gradient as soon as it is there; nothing to a window's first, and nothing once `sums` has gone."""
    held = weakref.ref(sums)

    def fold(leaf: Tensor) -> None:
        alive = held()
        if alive is not None and alive._open and alive._backwards:
            alive._fold(leaf)

    return fold
