"""Weights narrower than float32: what an update narrows, the sums of their gradients, and the way to float32 for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import ParametrizationList
from torch.optim import Optimizer

from truestep.engine.parameters import same_bits
from truestep.engine.policy import Policy
from truestep.engine.store import Store
from truestep.engine.sums import Sums
from truestep.errors import OptimizerError, PolicyError

Build = Callable[[list[Parameter]], Sequence[Optimizer]]

HALVES = (torch.bfloat16, torch.float16)

IN_FLOAT32 = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, ParametrizationList)
"""What keeps float32 parameters: normalization layers, for torch's take no narrower ones beside a float32 input or float32
statistics, and what weights are computed from (spectral norm)."""


class Narrow(Store):
    """What both kinds of narrow weights share. Narrowed is what the optimizers hold, but for what `IN_FLOAT32` owns.

    Nothing of the model changes before `begin`, so that an update that is refused leaves it as it was. Parameters of no
    optimizer of this update, frozen ones or another update's, stay as they are.
    """

    def __init__(self, model: nn.Module, build: Build, policy: Policy) -> None:
        self._dtype, self.dtypes = policy.weights, (policy.weights, torch.float32)
        self._leaf_of: dict[int, Parameter] = {}
        self._sums = Sums()
        owned = {id(p) for module in model.modules() if isinstance(module, IN_FLOAT32) for p in module.parameters(recurse=False)}
        for name, p in model.named_parameters():
            _demand_weights(name, p)
        able = {id(p): p for p in model.parameters() if id(p) not in owned and p.dtype in (torch.float32, self._dtype)}
        given = [self._given(p, narrow=id(p) in able) for p in model.parameters()]
        super().__init__(model, build(given))
        self._demand_given(given)
        stepped = {id(self._leaf(p)) for p in self.stepped}
        self._leaves = [p for p in able.values() if id(p) in stepped]

    def begin(self) -> None:
        """Narrow the weights that are stepped, and widen those of them that stay float32."""
        narrow = {id(leaf) for leaf in self._leaves}
        for leaf in map(self._leaf, self.stepped):
            leaf.data = leaf.data.to(self._dtype if id(leaf) in narrow else torch.float32)

    def open(self) -> list[Parameter]:
        """The model's own parameters behind what is stepped; PolicyError where somebody has cast them since."""
        super().open()
        for leaf in self._leaves:
            if leaf.dtype is not self._dtype:
                name, found = self.names()[id(leaf)], str(leaf.dtype).removeprefix("torch.")
                raise PolicyError(
                    f"the weights of {name!r} have become {found} since the update was built",
                    hint="leave out model.float(), .half() and .bfloat16(): the policy says what is narrow",
                    parameter=name,
                )
        leaves = [leaf for leaf in map(self._leaf, self.stepped) if leaf.requires_grad]
        if not leaves:
            raise OptimizerError("the optimizer holds no parameter that takes a gradient", hint="look for requires_grad=False")
        self._sums.watch([leaf for leaf in leaves if leaf.dtype in HALVES])
        return leaves

    def backward(self, losses: Sequence[Tensor], factors: Sequence[float], params: Sequence[Parameter]) -> None:
        """Sums in float32 from the second backward on."""
        with self._sums.adding():
            super().backward(losses, factors, params)

    def clear(self) -> None:
        """Leave no gradient, and no sum of them."""
        super().clear()
        self._sums.clear()

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Inside, every narrow parameter of the model is float32; what is written to it there, or put in its place, stays."""
        stored = [(p, p.data, self._wide(p)) for p in self.model.parameters() if p.dtype in HALVES]
        try:
            for p, _, wide in stored:
                p.data = wide
            yield
        finally:
            written = [p.data for p, _, _ in stored]
            for p, data, _ in stored:
                p.data = data
            for (p, _, wide), now in zip(stored, written, strict=True):
                self._narrow_again(p, wide, now)

    def _given(self, p: Parameter, *, narrow: bool) -> Parameter:
        """What the optimizers are built from in the place of a parameter that is to be `narrow`, or is not."""
        return p

    def _leaf(self, p: Parameter) -> Parameter:
        """The model's own parameter behind one that is stepped."""
        return self._leaf_of.get(id(p), p)

    def _wide(self, leaf: Parameter) -> Tensor:
        """The float32 weights of a narrow parameter."""
        return leaf.data.float()

    @torch.no_grad()
    def _narrow_again(self, leaf: Parameter, wide: Tensor, now: Tensor) -> None:
        """Take over what stands in the place of `wide`; a parameter that nobody wrote keeps its version."""
        narrowed = now.to(leaf.dtype)
        if not same_bits(leaf, narrowed):
            leaf.copy_(narrowed)

    def _demand_given(self, given: list[Parameter]) -> None:
        """PolicyError for an optimizer of other tensors than it was given: the model's own, which others follow."""
        known, names = {id(p) for p in given}, self.names()
        for p in self.stepped:
            if id(p) not in known:
                raise PolicyError(
                    f"the optimizer holds {names[id(p)]!r}, which is not among the parameters that it was to be built from",
                    hint="build it from what the function is given: it stands for the model's parameters in their order;"
                    " names come by zip(model.named_parameters(), params, strict=True)",
                    parameter=names[id(p)],
                )


def _demand_weights(name: str, p: Parameter) -> None:
    if is_lazy(p):
        raise PolicyError(
            f"parameter {name!r} has no weights yet", hint="run one forward before the update is built", parameter=name
        )
