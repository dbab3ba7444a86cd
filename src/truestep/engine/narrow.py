"""Weights narrower than float32: the narrowing, the sums of their gradients, and float32 masters beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import ParametrizationList
from torch.optim import Optimizer

from truestep.engine.gradients import clear
from truestep.engine.policy import Policy
from truestep.engine.stepping import Closure
from truestep.engine.store import Store
from truestep.engine.sums import Sums
from truestep.errors import PolicyError, StateError

Build = Callable[[list[Parameter]], Sequence[Optimizer]]

IN_FLOAT32 = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, ParametrizationList)
"""What keeps float32 parameters: normalization layers, for torch's take no narrower ones beside a float32 input or float32
statistics, and what weights are computed from (spectral norm)."""


def narrowable(model: nn.Module, dtype: torch.dtype) -> list[Parameter]:
    """The parameters that are to be stored in `dtype`: all but those `IN_FLOAT32`; PolicyError for one that cannot be."""
    for name, p in model.named_parameters():
        if is_lazy(p):
            raise PolicyError(
                f"parameter {name!r} has no weights yet", hint="run one forward before the update is built", parameter=name
            )
        if p.dtype not in (torch.float32, dtype):
            found, wanted = (str(each).removeprefix("torch.") for each in (p.dtype, dtype))
            raise PolicyError(
                f"parameter {name!r} is {found}, and this policy makes it {wanted}",
                hint="give the model in float32: the update narrows it",
                parameter=name,
            )
    kept = {id(p) for module in model.modules() if isinstance(module, IN_FLOAT32) for p in module.parameters(recurse=False)}
    return [p for p in model.parameters() if id(p) not in kept]


class Narrow(Store):
    """What both kinds of narrow weights share: the narrowing, the sums of gradients, the way to float32 for a while.

    Nothing of the model is changed before `begin`, so that an update that is refused leaves it as it was.
    """

    def __init__(self, model: nn.Module, build: Build, policy: Policy) -> None:
        self._dtype, self.dtypes = policy.weights, (policy.weights, torch.float32)
        self._narrowable = narrowable(model, policy.weights)
        given = self._given([p for p in model.parameters() if p.requires_grad])
        super().__init__(model, build(given))
        self._demand_given(given)

    def begin(self) -> None:
        """Narrow the weights, and widen those that stay float32."""
        narrow = {id(p) for p in self._narrowable}
        for p in self.model.parameters():
            p.data = p.data.to(self._dtype) if id(p) in narrow else p.data.float()
        self._sums = Sums(self._narrowable)

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

    def _given(self, leaves: list[Parameter]) -> list[Parameter]:
        """What the optimizers are built from."""
        return leaves

    def _demand_given(self, given: list[Parameter]) -> None:
        """PolicyError for an optimizer of other tensors than it was given: the model's own, which others follow."""
        known, names = {id(p) for p in given}, self.names()
        for p in self.stepped:
            if id(p) not in known:
                raise PolicyError(
                    f"the optimizer holds {names[id(p)]!r}, which is not among the parameters that it was to be built from",
                    hint="build it from what the function is given: lambda params: torch.optim.AdamW(params)",
                    parameter=names[id(p)],
                )

    def _wide(self, leaf: Parameter) -> Tensor:
        """The float32 weights of a narrow parameter."""
        return leaf.data.float()


class Masters(Narrow):
    """Narrow weights and gradients; the optimizers step float32 masters, which the weights follow, rounded to nearest.

    Bytes a parameter with Adam: 2 weight, 2 gradient, 4 master, 8 moments; with several microbatches 4 for the gradient's sum in
    place of its 2. From the finite check to the end of the step the gradient lies in float32: 4 bytes in place of 2.
    """

    def begin(self) -> None:
        """Narrow the weights; the masters keep what they were."""
        super().begin()
        self.dtypes = (torch.float32,)
        self._versions = {id(leaf): leaf._version for leaf in self._leaf_of.values()}

    def _given(self, leaves: list[Parameter]) -> list[Parameter]:
        narrow = {id(p) for p in self._narrowable}
        self._master_of = {id(leaf): Parameter(leaf.data.float()) for leaf in leaves if id(leaf) in narrow}
        self._leaf_of = {id(self._master_of[id(leaf)]): leaf for leaf in leaves if id(leaf) in narrow}
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
