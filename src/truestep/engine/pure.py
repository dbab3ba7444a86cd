"""Narrow weights and moments without masters, rounded stochastically after each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.gradients import multiply
from truestep.engine.narrow import Build, Narrow
from truestep.engine.parameters import parameters_of
from truestep.engine.policy import Policy
from truestep.engine.rounding import generator_of, stochastically_rounded
from truestep.engine.stepping import Closure
from truestep.errors import StateError


class Pure(Narrow):
    """Narrow weights, gradients and moments and nothing beside them: 8 bytes a parameter with Adam.

    A step is made in float32 and its result rounded stochastically, for rounded to nearest an update below half an ulp is lost,
    and a second moment sticks. Torch's own optimizers, which treat each parameter for itself, make it in portions of at most
    `PORTION` elements (one tensor at least): the transient copies, 12 bytes an element for Adam, are those of one portion.
    From the finite check to the end of the step the gradient lies in float32.
    """

    PORTION = 2**22

    def __init__(self, model: nn.Module, build: Build, policy: Policy) -> None:
        self._seed = policy.seed
        self._gradients: dict[int, Tensor | None] = {}
        super().__init__(model, build, policy)

    def gradients(self) -> list[Tensor]:
        """The gradients in float32, beside the narrow weights, which cannot carry them."""
        self._gradients = {id(p): self._sums.take(p) for p in self.stepped if p.dtype is not torch.float32}
        return super().gradients()

    def gradient_of(self, p: Parameter) -> Tensor | None:
        """A narrow parameter's is kept beside it."""
        return self._gradients.get(id(p), p.grad)

    def clear(self) -> None:
        """Leave no gradient on the weights nor beside them."""
        super().clear()
        self._gradients.clear()

    def step(self, gradients: list[Tensor], factor: float, *, draw: int, closure: Closure | None = None) -> None:
        """Step in float32, portion by portion, and round what comes out."""
        assert closure is None
        multiply(gradients, factor)
        gradients.clear()  # so that each is given up as soon as it has been applied
        generator = generator_of(self.device, seed=self._seed, draw=draw)
        with self.all_or_none(self.stepped):
            for optimizer in self.optimizers:
                for portion in self._portions(optimizer):
                    with only(optimizer, portion), self._widened(optimizer, portion, generator):
                        optimizer.step()

    def _portions(self, optimizer: Optimizer) -> Iterator[list[Parameter]]:
        params = parameters_of(optimizer)
        if not type(optimizer).__module__.startswith("torch.optim."):
            yield params
            return
        portion: list[Parameter] = []
        elements = 0
        for p in params:
            if portion and elements + p.numel() > self.PORTION:
                yield portion
                portion, elements = [], 0
            portion.append(p)
            elements += p.numel()
        yield portion

    @contextmanager
    def _widened(self, optimizer: Optimizer, portion: list[Parameter], generator: torch.Generator) -> Iterator[None]:
        """Inside, weights and moments are float32 and the weights carry their gradients; then they are rounded.

        After an exception the narrow weights and their moments are what they were.
        """
        stored = [(p, p.data, _copied(optimizer.state.get(p, {}))) for p in portion if p.dtype is not torch.float32]
        try:
            for p, data, state in stored:
                p.grad = None
                p.data = data.float()
                p.grad = self._gradients[id(p)]
                if state:
                    optimizer.state[p].update(self._wide_state(p, state))
            yield
            rounded = [
                (stochastically_rounded(p.data, generator), _rounded(optimizer.state.get(p, {}), generator)) for p, _, _ in stored
            ]
        except BaseException:
            for p, data, state in stored:
                p.grad, p.data = None, data
                if state:
                    optimizer.state[p] = state
                else:
                    optimizer.state.pop(p, None)
            raise
        for (p, data, _), (weights, held) in zip(stored, rounded, strict=True):
            p.grad, p.data, self._gradients[id(p)] = None, data, None
            with torch.no_grad():
                p.copy_(weights)
            if held:
                optimizer.state[p].update(held)

    def _wide_state(self, p: Parameter, state: dict[str, object]) -> dict[str, object]:
        """The moments in float32; StateError for a number that torch has cast on loading, as no moment is one."""
        low = {key: value for key, value in state.items() if isinstance(value, Tensor) and value.dtype is self._dtype}
        cast = [key for key, value in low.items() if value.dim() == 0]
        if cast:
            raise StateError(
                f"the optimizer's {cast[0]!r} of {self.names()[id(p)]!r} was loaded in {str(self._dtype).removeprefix('torch.')}",
                hint="load the optimizer's state inside `with update.in_float32():`, where torch leaves its numbers as they are",
            )
        return {key: value.float() for key, value in low.items()}


@contextmanager
def only(optimizer: Optimizer, portion: Sequence[Parameter]) -> Iterator[None]:
    """Inside, the optimizer holds no parameters but these."""
    wanted, held = {id(p) for p in portion}, [group["params"] for group in optimizer.param_groups]
    try:
        for group in optimizer.param_groups:
            group["params"] = [p for p in group["params"] if id(p) in wanted]
        yield
    finally:
        for group, params in zip(optimizer.param_groups, held, strict=True):
            group["params"] = params


def _copied(state: dict[str, object]) -> dict[str, object]:
    """What a step would write in place: its numbers. The moments themselves are not copied, for it is given wider ones."""
    return {key: value.clone() if isinstance(value, Tensor) and value.dim() == 0 else value for key, value in state.items()}


def _rounded(state: dict[str, object], generator: torch.Generator) -> dict[str, object]:
    """The moments, rounded; a count of steps, or any other number without a dimension, is left alone."""
    moments = {key: value for key, value in state.items() if isinstance(value, Tensor) and value.dtype is torch.float32}
    return {key: stochastically_rounded(value, generator) for key, value in moments.items() if value.dim() > 0}
