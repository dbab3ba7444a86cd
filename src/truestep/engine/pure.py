"""Narrow weights and moments without masters, rounded stochastically after each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.demands import parameters_of
from truestep.engine.gradients import multiply
from truestep.engine.narrow import Build, Narrow
from truestep.engine.policy import Policy
from truestep.engine.rounding import generator_of, stochastically_rounded
from truestep.engine.stepping import Closure


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
        for p in params:
            if portion and sum(q.numel() for q in portion) + p.numel() > self.PORTION:
                yield portion
                portion = []
            portion.append(p)
        yield portion

    @contextmanager
    def _widened(self, optimizer: Optimizer, portion: list[Parameter], generator: torch.Generator) -> Iterator[None]:
        """Inside, weights and moments are float32 and the weights carry their gradients; then they are rounded."""
        narrow_ones = [(p, p.data) for p in portion if p.dtype is not torch.float32]
        for p, data in narrow_ones:
            p.grad = None
            p.data = data.float()
            p.grad = self._gradients.pop(id(p), None)
            _cast(optimizer.state.get(p, {}), data.dtype, Tensor.float)
        try:
            yield
        finally:
            for p, data in narrow_ones:
                p.grad, wide, p.data = None, p.data, data
                with torch.no_grad():
                    p.copy_(stochastically_rounded(wide, generator))
                _cast(optimizer.state.get(p, {}), torch.float32, lambda moment: stochastically_rounded(moment, generator))


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


def _cast(state: dict[str, object], dtype: torch.dtype, cast: Callable[[Tensor], Tensor]) -> None:
    """Cast the tensors of a parameter's state that have this format; a count of steps, which has no dimension, is left alone."""
    for key, value in state.items():
        if isinstance(value, Tensor) and value.dtype is dtype and value.dim() > 0:
            state[key] = cast(value)
