"""Where the weights live that an update moves: here in float32, where a backward reaches what the optimizers step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.backward import backward
from truestep.engine.demands import demand_optimizers, demand_parameters
from truestep.engine.gradients import clear, demand_gradients, elements_of
from truestep.engine.parameters import names_of, parameters_of
from truestep.engine.stepping import AllOrNone, Closure, step


class Store:
    """Float32 weights, each with its gradient on it. Subclasses keep the weights in a narrower format.

    `begin` comes once, and an attempt goes through it in this order: `open`, `backward` for each microbatch, `gradients`, then
    `step` or `clear`.
    """

    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    """The formats of the parameters that the optimizers step."""

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        demand_optimizers(optimizers)
        self.model, self.optimizers = model, tuple(optimizers)
        self.stepped = parameters_of(*self.optimizers)
        self.device = self._demand()
        self.all_or_none = AllOrNone(self.optimizers)

    def begin(self) -> None:
        """Make of the model's weights what the policy says, once nothing can be refused any more: nothing here."""

    def open(self) -> list[Parameter]:
        """What a backward has to reach, without a gradient: the parameters as the optimizers hold them now."""
        self.all_or_none.demand_whole()
        self.stepped = parameters_of(*self.optimizers)
        trained = [p for p in self.stepped if p.requires_grad]
        if not trained or not {p.dtype for p in trained}.issubset(self.dtypes):
            self._demand()  # they were right when the update was built, and now it says what is not
        self.clear()
        return trained

    def backward(self, losses: Sequence[Tensor], factors: Sequence[float], params: Sequence[Parameter]) -> None:
        """Add to the window's gradient that of each loss times its factor, by `params`."""
        backward(losses, factors, params)

    def gradients(self) -> list[Tensor]:
        """The elements of the window's gradient in float32, as they lie on what the optimizers step; GradientError for none."""
        for p in self.stepped:
            if (gradient := p.grad) is not None and gradient.layout is torch.sparse_coo:
                p.grad = gradient.coalesce()
        return demand_gradients(elements_of(map(self.gradient_of, self.stepped)), parameters=len(self.stepped))

    def gradient_of(self, p: Parameter) -> Tensor | None:
        """The window's gradient of a parameter that is stepped, once `gradients` has been called."""
        return p.grad

    def named_gradients(self) -> list[tuple[str, Tensor]]:
        """The same elements, each tensor with the name of its parameter."""
        names = self.names()
        held = [(names[id(p)], elements_of([self.gradient_of(p)])) for p in self.stepped]
        return [(name, elements[0]) for name, elements in held if elements]

    def asks(self) -> Tensor | None:
        """What `step` has to know of the device, to be read together with the norm and `told`; None for nothing."""
        return None

    def told(self, answer: float) -> None:
        """The answer to `asks`."""

    def step(self, gradients: list[Tensor], factor: float, *, draw: int, closure: Closure | None = None) -> None:
        """Step all optimizers with `gradients` times `factor`, or none; `draw` numbers the update for those that draw."""
        with self.all_or_none(self.movable(), undoable=closure is not None):
            step(self.optimizers, gradients, factor, closure)
            self._settle()

    def movable(self) -> list[Parameter]:
        """What a step writes."""
        return self.stepped

    def take_weights(self) -> None:
        """What the model holds is what goes on: nothing to do where there is nothing beside it."""

    def clear(self) -> None:
        """Leave no gradient."""
        clear(self.stepped)

    def weights(self) -> dict[str, Tensor]:
        """The weights that the optimizers step, by name, in float32 and without a graph."""
        names = self.names()
        return {names[id(p)]: p.detach().float() for p in self.stepped}

    def names(self) -> dict[int, str]:
        """The name of each parameter, by its id."""
        return names_of(self.model, *self.optimizers)

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Inside, the model's parameters are the float32 weights; what is written to them there stays."""
        yield

    def _settle(self) -> None:
        """What a step leaves to be done, before it counts as made: nothing here."""

    def _demand(self) -> torch.device:
        return demand_parameters(self.stepped, self.names(), dtypes=self.dtypes)
