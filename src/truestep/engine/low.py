"""Weights narrower than float32: with float32 masters beside them, or alone and rounded stochastically."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.demands import parameters_of
from truestep.engine.gradients import clear, multiply
from truestep.engine.policy import Policy
from truestep.engine.rounding import generator_of, stochastically_rounded
from truestep.engine.stepping import Closure
from truestep.engine.store import Store
from truestep.errors import PolicyError, StateError

Build = Callable[[list[Parameter]], Sequence[Optimizer]]

NORMALIZATION = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
"""Layers that keep float32 parameters: torch's take no narrower ones beside a float32 input or float32 statistics."""


def narrow(model: nn.Module, dtype: torch.dtype) -> list[Parameter]:
    """Store the model's float32 parameters in `dtype`, but those of normalization layers; all its trained ones, in order."""
    kept = {id(p) for module in model.modules() if isinstance(module, NORMALIZATION) for p in module.parameters(recurse=False)}
    for name, p in model.named_parameters():
        if p.dtype not in (torch.float32, dtype):
            found, wanted = (str(each).removeprefix("torch.") for each in (p.dtype, dtype))
            raise PolicyError(
                f"parameter {name!r} is {found}, and this policy makes it {wanted}",
                hint="give the model in float32: the update narrows it",
                parameter=name,
            )
    for p in model.parameters():
        p.data = p.data.float() if id(p) in kept else p.data.to(dtype)
    return [p for p in model.parameters() if p.requires_grad]


class Sums:
    """Float32 sums of narrow gradients, begun with a window's second backward: a bfloat16 sum of 512 equal terms stays at 256.

    Each parameter's gradient is added as soon as a backward has made it, and given up: 4 bytes a parameter, and no 2 beside them.
    """

    def __init__(self, leaves: Sequence[Parameter]) -> None:
        self._leaves = [leaf for leaf in leaves if leaf.dtype is not torch.float32]
        self._sums: dict[int, Tensor] = {}
        self._backwards = 0
        self._open = False
        sums = weakref.ref(self)

        def fold(leaf: Tensor) -> None:
            alive = sums()
            if alive is not None and alive._open and alive._backwards:
                alive._fold(leaf)

        for leaf in self._leaves:
            hook = leaf.register_post_accumulate_grad_hook(fold)  # type: ignore[no-untyped-call]  # torch's is untyped
            weakref.finalize(self, hook.remove)

    @contextmanager
    def adding(self) -> Iterator[None]:
        """One backward. The first of a window leaves its gradients where they are, in the narrow format."""
        if self._backwards == 1:
            for leaf in self._leaves:
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


class Narrow(Store):
    """What both kinds of narrow weights share: the narrowing, the sums of gradients, the way to float32 for a while."""

    def __init__(self, model: nn.Module, build: Build, policy: Policy) -> None:
        originals = {id(p): p.data for p in model.parameters()}
        leaves = narrow(model, policy.weights)
        self._sums = Sums(leaves)
        super().__init__(model, build(self._given(leaves, originals)))

    def adding(self) -> AbstractContextManager[None]:
        """Sums in float32 from the second backward on."""
        return self._sums.adding()

    def clear(self) -> None:
        """Leave no gradient, and no sum of them."""
        super().clear()
        self._sums.clear()

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Inside, the model's parameters are the float32 weights; what is written to them there stays, as far as it is kept."""
        stored = [(p, p.data, self._wide(p)) for p in self.model.parameters() if p.dtype is not torch.float32]
        try:
            for p, _, wide in stored:
                p.data = wide
            yield
        finally:
            for p, data, wide in stored:
                p.data = data.copy_(wide)

    def _given(self, leaves: list[Parameter], originals: dict[int, Tensor]) -> list[Parameter]:
        """What the optimizers are built from; `originals` are the weights as they came, by the parameter's id."""
        return leaves

    def _wide(self, leaf: Parameter) -> Tensor:
        """The float32 weights of a narrow parameter."""
        return leaf.data.float()


class Masters(Narrow):
    """Narrow weights and gradients; the optimizers step float32 masters, which the weights follow, rounded to nearest.

    Bytes a parameter with Adam: 2 weight, 2 gradient, 4 master, 8 moments; with several microbatches 4 for the gradient's sum in
    place of its 2. From the finite check to the end of the step the gradient lies in float32: 4 bytes in place of 2.
    """

    def _given(self, leaves: list[Parameter], originals: dict[int, Tensor]) -> list[Parameter]:
        narrowed = [leaf for leaf in leaves if leaf.dtype is not torch.float32]
        self._master_of = {id(leaf): Parameter(originals[id(leaf)].float()) for leaf in narrowed}
        self._leaf_of = {id(self._master_of[id(leaf)]): leaf for leaf in leaves if id(leaf) in self._master_of}
        self._versions = {id(leaf): leaf._version for leaf in self._leaf_of.values()}
        return [self._master_of.get(id(leaf), leaf) for leaf in leaves]

    def open(self) -> list[Parameter]:
        """The narrow weights, where they are still those of the masters."""
        super().open()
        self._demand_followed()
        leaves = [self._leaf_of.get(id(p), p) for p in self.stepped]
        return [leaf for leaf in leaves if leaf.requires_grad]

    def gradients(self) -> list[Tensor]:
        """The gradients, moved to the masters."""
        for master, leaf in self._pairs():
            master.grad = self._sums.take(leaf)
        return super().gradients()

    def step(self, gradients: list[Tensor], factor: float, *, draw: int, closure: Closure | None = None) -> None:
        """Step the masters, and let the weights follow."""
        super().step(gradients, factor, draw=draw, closure=closure)
        pairs = self._pairs()
        with torch.no_grad():
            torch._foreach_copy_([leaf for _, leaf in pairs], [master for master, _ in pairs])
        for master, leaf in pairs:
            master.grad = None
            self._versions[id(leaf)] = leaf._version
        gradients.clear()  # nobody else holds them now

    def clear(self) -> None:
        """Leave no gradient on masters nor weights."""
        super().clear()
        clear([leaf for _, leaf in self._pairs()])

    def names(self) -> dict[int, str]:
        """A master is called as its weights are."""
        names = super().names()
        return names | {id(master): names[id(leaf)] for master, leaf in self._pairs()}

    def _pairs(self) -> list[tuple[Parameter, Parameter]]:
        return [(p, self._leaf_of[id(p)]) for p in self.stepped if id(p) in self._leaf_of]

    def _wide(self, leaf: Parameter) -> Tensor:
        master = self._master_of.get(id(leaf))
        return leaf.data.float() if master is None else master.data

    def _demand_followed(self) -> None:
        """StateError where somebody has written weights that the masters do not know: the next step would undo it."""
        for master, leaf in self._pairs():
            if leaf._version == self._versions[id(leaf)]:
                continue
            if not torch.equal(leaf.detach().view(torch.int16), master.detach().to(leaf.dtype).view(torch.int16)):
                name = self.names()[id(leaf)]
                raise StateError(
                    f"the weights of {name!r} were written, and their float32 master was not",
                    hint="load or write weights inside `with update.in_float32():`, which reaches the masters",
                    parameter=name,
                )
            self._versions[id(leaf)] = leaf._version


class Pure(Narrow):
    """Narrow weights, gradients and moments and nothing beside them: 8 bytes a parameter with Adam.

    A step is made in float32 and its result rounded stochastically, for rounded to nearest an update below half an ulp is lost,
    and a second moment sticks. Torch's own optimizers, which treat each parameter for itself, make it in portions of at most
    `PORTION` elements (one tensor at least): the transient copies, 12 bytes an element for Adam, are those of one portion.
    From the finite check to the end of the step the gradient lies in float32.
    """

    PORTION = 2**22

    def __init__(self, model: nn.Module, build: Build, policy: Policy) -> None:
        self.dtypes, self._seed = (policy.weights, torch.float32), policy.seed
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
