"""Hooks on a model's layers, parameters and optimizers, which give every tensor that passes to its row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from truestep.engine.store import Store
from truestep.engine.windows import Window
from truestep.inspection.counting import elements
from truestep.inspection.numbers import Kind
from truestep.inspection.rows import Row
from truestep.probe.tree import leaves

Take = Callable[[Row, Hashable, Tensor], None]
"""Takes a tensor for a row, from a source that tells it from the row's others."""


class Watched(Window[Any]):
    """A window that says which microbatch is taken, by its place, and when its last one is done with.

    An update goes through it once to measure it and once to run it; what it replays to explain a skip is not the window itself.
    """

    def __init__(self, window: Sequence[Any], begin: Callable[[int], None], end: Callable[[], None]) -> None:
        super().__init__(window)
        self._begin, self._end = begin, end
        self.ends_epoch = bool(getattr(window, "ends_epoch", False))

    def __iter__(self) -> Iterator[Any]:
        """The microbatches, between both words."""
        for place, microbatch in enumerate(super().__iter__()):
            self._begin(place)
            yield microbatch
        self._end()


class Capture:
    """The rows of a model. Between `taking` and its end, activations and their gradients go where `taking` says."""

    def __init__(self, store: Store, compute: torch.dtype) -> None:
        self._store, self._compute = store, compute
        self.in_float32 = True
        self.rows: dict[tuple[str, Kind], Row] = {}
        self.take: Take | None = None
        self.stepped: dict[str, Tensor | None] = {}
        """Where the gradients at the optimizer's last step were not 0, by parameter, None meaning everywhere; of sparse ones
        nothing is told."""
        self.step: Take | None = None
        """What takes the gradients at the optimizer."""
        model = store.model
        self._layers = [(name, each) for name, each in model.named_modules() if _is_layer(each)]
        self._home: dict[int, tuple[str, nn.Module]] = {}
        self.shared: list[str] = []
        """Parameters that several layers hold, in words."""
        for name, module in self._layers:
            for parameter in module.parameters(recurse=False):
                first = self._home.setdefault(id(parameter), (name, module))
                if first[1] is not module:
                    self.shared.append(f"{name or 'the model'} shares a parameter with {first[0]}, whose row counts it")

    @property
    def names(self) -> list[str]:
        """The layers, in the model's order."""
        return [name for name, _ in self._layers]

    def row(self, layer: str, module: nn.Module, kind: Kind) -> Row:
        """The row of a layer's numbers of one kind, which is there from its first tensor on."""
        if (layer, kind) not in self.rows:
            self.rows[layer, kind] = Row(layer, type(module).__name__, kind)
        return self.rows[layer, kind]

    def parameter_row(self, parameter: Parameter, kind: Kind) -> Row:
        """The row of the layer that holds a parameter; of the model where none does."""
        return self.row(*self._home.get(id(parameter), ("", self._store.model)), kind)

    def layer_of(self, parameter: Parameter) -> str:
        """The layer that holds a parameter."""
        return self._home.get(id(parameter), ("", self._store.model))[0]

    def weights(self, take: Take) -> None:
        """Every parameter of the model as it stands, each once."""
        for parameter in self._store.model.parameters():
            take(self.parameter_row(parameter, "weights"), id(parameter), parameter)

    @contextmanager
    def hooks(self, trained: Mapping[str, Parameter]) -> Iterator[None]:
        """Inside, the hooks are there; `trained` are the model's own parameters that a backward reaches."""
        handles: list[Any] = [module.register_forward_hook(partial(self._forward, name)) for name, module in self._layers]
        handles += [_hook(each, partial(self._weight_gradient, each)) for each in trained.values()]
        handles += [optimizer.register_step_pre_hook(self._before_step) for optimizer in self._store.optimizers]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def close(self) -> None:
        """An attempt is over."""
        self.take = self.step = None
        for row in self.rows.values():
            row.close()

    def _forward(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if self.take is None or torch._C._current_autograd_node() is not None:  # a checkpoint computes it again in its backward
            return
        for path, each in leaves(output):
            if not isinstance(each, Tensor) or not (each.is_floating_point() or each.is_complex()):
                continue
            self.take(self.row(name, module, "activations"), path, each)
            if each.requires_grad:
                row = self.row(name, module, "activation gradients")
                _hook(_written(each, inputs), partial(self._gradient, row, path))

    def _gradient(self, row: Row, source: str, gradient: Tensor) -> None:
        if self.take is not None:
            self.take(row, source, gradient)

    def _weight_gradient(self, parameter: Parameter, gradient: Tensor) -> None:
        if self.take is not None:
            found = gradient if self.in_float32 else as_computed(gradient, self._compute)
            self.take(self.parameter_row(parameter, "weight gradients"), id(parameter), found)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.step is None:
            return
        names = self._store.names()
        own = dict(self._store.model.named_parameters())
        for parameter in (each for group in optimizer.param_groups for each in group["params"]):
            found, name = self._store.gradient_of(parameter), names[id(parameter)]
            if found is None or name in self.stepped:
                continue
            home, gradient, dense = own.get(name, parameter), elements(found), found.layout is torch.strided
            divisor = getattr(optimizer, "grad_scale", None)  # a fused optimizer divides by it in its own pass
            gradient = gradient if divisor is None else gradient / divisor
            self.step(self.parameter_row(home, "gradients at the optimizer"), id(home), gradient)
            self.stepped[name] = _where(gradient) if dense else torch.empty(0)


def _where(gradient: Tensor) -> Tensor | None:
    """Where a gradient is not 0; None: everywhere."""
    return None if int(gradient.count_nonzero()) == gradient.numel() else gradient != 0


def _written(output: Tensor, inputs: Any) -> Tensor:
    """The tensor that a layer wrote: what its output is a view of, as a linear layer's of three dimensions is.

    A hook on a view is lost where somebody changes the view in place afterwards, as ReLU(inplace=True) does; one on its base
    is not.
    """
    base = output._base
    if base is None or base.numel() != output.numel() or not base.requires_grad:
        return output
    given = (each for _, each in leaves(inputs) if isinstance(each, Tensor))
    return output if any(each is base or each._base is base for each in given) else base


def _hook(tensor: Tensor, take: Callable[[Tensor], None]) -> Any:
    return tensor.register_hook(take)  # type: ignore[no-untyped-call]  # torch's is untyped


def as_computed(gradient: Tensor, compute: torch.dtype) -> Tensor:
    """A parameter's gradient in the format that it was computed in, before autograd made it the parameter's.

    Told from the numbers: where every one of them is a number of `compute`, they came from there.
    """
    held = elements(gradient)
    if held.dtype is compute:
        return held
    narrow = held.to(compute)
    wide = narrow.to(held.dtype)
    if torch.equal(wide, held):
        return narrow
    return narrow if torch.equal(wide.nan_to_num(), held.nan_to_num()) else held  # a NaN equals nothing


def _is_layer(module: nn.Module) -> bool:
    """A leaf, or a module with parameters of its own."""
    return next(module.children(), None) is None or next(module.parameters(recurse=False), None) is not None
