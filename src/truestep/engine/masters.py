"""Narrow weights with float32 masters beside them, which the optimizers step and the weights follow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter

from truestep.engine.gradients import clear
from truestep.engine.narrow import Narrow
from truestep.engine.parameters import bits_of, same_bits
from truestep.engine.stepping import Closure
from truestep.errors import StateError

Pair = tuple[Parameter, Parameter]
"""A master, and the weights that follow it."""


class Masters(Narrow):
    """Narrow weights and gradients; the optimizers step float32 masters, which the weights follow, rounded to nearest.

    Bytes a parameter with Adam: 2 weight, 2 gradient, 4 master, 8 moments; with several microbatches 4 for the gradient's sum in
    place of its 2. From the finite check to the end of the step the gradient lies in float32: 4 bytes in place of 2.

    Weights that somebody writes behind the masters are refused, since the next step would undo it: at once where the write moves
    their version, and where it does not (`p.data.clamp_`) by a look at one parameter an attempt, in turn. Masters that somebody
    writes, as an optimizer's own eval() and train() do, are followed.
    """

    def begin(self) -> None:
        """Narrow the weights; the masters keep what they were."""
        super().begin()
        self.dtypes = (torch.float32,)
        self._attempts = 0
        self._looked_at: tuple[Parameter, Tensor] | None = None
        self._noted: dict[int, tuple[int, int]] = {}
        self._own = {id(leaf): master for master, leaf in self._pairs()}
        self._note(self._pairs())

    def open(self) -> list[Parameter]:
        """The narrow weights, where they are those of the masters."""
        leaves = super().open()
        self._agree()
        return leaves

    def gradients(self) -> list[Tensor]:
        """The gradients, moved to the masters and laid out as they are."""
        pairs = self._pairs()
        for master, leaf in pairs:
            master.grad = _laid_out_as(master, self._sums.take(leaf))
        if pairs:
            master, leaf = pairs[self._attempts % len(pairs)]
            self._attempts += 1
            self._looked_at = leaf, (bits_of(leaf) != bits_of(master.to(leaf.dtype))).any()
        return super().gradients()

    def asks(self) -> Tensor | None:
        """Whether the parameter whose turn it is differs from its master."""
        return None if self._looked_at is None else self._looked_at[1]

    def told(self, answer: float) -> None:
        """StateError where it does."""
        if answer == 1.0 and self._looked_at is not None:
            raise self._written(self._looked_at[0])

    def step(self, gradients: list[Tensor], factor: float, *, draw: int, closure: Closure | None = None) -> None:
        """Step the masters, and let the weights follow."""
        super().step(gradients, factor, draw=draw, closure=closure)
        gradients.clear()  # nobody else holds them now

    def clear(self) -> None:
        """Leave no gradient on masters nor weights."""
        super().clear()
        clear([leaf for _, leaf in self._pairs()])

    def names(self) -> dict[int, str]:
        """A master is called as its weights are."""
        names = super().names()
        return names | {id(master): names[id(leaf)] for master, leaf in self._pairs() if id(leaf) in names}

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """The masters in the place of the weights that follow them."""
        self._agree()
        with super().in_float32():
            yield

    @torch.no_grad()
    def take_weights(self) -> None:
        """The masters become what the weights are."""
        for master, leaf in (pairs := self._pairs()):
            master.copy_(leaf)
        self._note(pairs)

    def movable(self) -> list[Parameter]:
        """Masters and weights."""
        return [*self.stepped, *(leaf for _, leaf in self._pairs())]

    def _given(self, p: Parameter, *, narrow: bool) -> Parameter:
        if not narrow:
            return p
        master = Parameter(p.data.float(), requires_grad=p.requires_grad)
        self._leaf_of[id(master)] = p
        return master

    def _settle(self) -> None:
        pairs = self._pairs()
        self._follow(pairs)
        for master, _ in pairs:
            master.grad = None

    def _wide(self, leaf: Parameter) -> Tensor:
        return self._own[id(leaf)].data if id(leaf) in self._own else super()._wide(leaf)

    @torch.no_grad()
    def _narrow_again(self, leaf: Parameter, wide: Tensor, now: Tensor) -> None:
        if id(leaf) not in self._own:
            super()._narrow_again(leaf, wide, now)
            return
        if now.data_ptr() != wide.data_ptr():  # another tensor was put in its place
            wide.copy_(now)
        self._follow([(self._own[id(leaf)], leaf)])

    def _agree(self) -> None:
        """Follow masters that were written, and refuse weights that were: StateError."""
        for master, leaf in self._pairs():
            leaf_version, master_version = self._noted[id(leaf)]
            if (leaf._version, master._version) == (leaf_version, master_version):
                continue
            if leaf._version != leaf_version and not same_bits(leaf, master.detach().to(leaf.dtype)):
                raise self._written(leaf)
            if master._version != master_version:
                self._follow([(master, leaf)])
            self._note([(master, leaf)])

    @torch.no_grad()
    def _follow(self, pairs: list[Pair]) -> None:
        if pairs:
            torch._foreach_copy_([leaf for _, leaf in pairs], [master for master, _ in pairs])
        self._note(pairs)

    def _note(self, pairs: list[Pair]) -> None:
        self._noted.update({id(leaf): (leaf._version, master._version) for master, leaf in pairs})

    def _pairs(self) -> list[Pair]:
        return [(p, self._leaf_of[id(p)]) for p in self.stepped if id(p) in self._leaf_of]

    def _written(self, leaf: Parameter) -> StateError:
        name = self.names()[id(leaf)]
        return StateError(
            f"the weights of {name!r} were written, and their float32 master was not",
            hint="write weights inside `with update.in_float32():`, which reaches the masters; update.take_weights() takes over"
            " what was written, rounded as it is",
            parameter=name,
        )


def _laid_out_as(master: Parameter, gradient: Tensor | None) -> Tensor | None:
    """The gradient in its master's memory order, without which a fused optimizer would give elements each other's."""
    if gradient is None or gradient.layout is not torch.strided or gradient.stride() == master.stride():
        return gradient
    return torch.empty_like(master).copy_(gradient)
