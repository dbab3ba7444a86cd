"""Which operator of which layer ran in which dtype, forward and backward, as the operators themselves saw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SILENT = {
    "_to_copy",
    "detach",
    "alias",
    "clone",
    "copy_",
    "lift_fresh",
    "zeros_like",
    "ones_like",
    "empty_like",
    "fill_",
    "zero_",
}
"""Operators that move numbers and compute none."""


class Operation(NamedTuple):
    """One operator as it ran in one layer."""

    layer: str
    """The innermost module whose forward called it, or what its backward belongs to; "" for the model itself and the loss."""
    name: str
    """As torch calls it, without its overload: "aten.addmm"."""
    phase: Literal["forward", "backward"]
    inputs: tuple[torch.dtype, ...]
    """Of its floating-point inputs, each once, in their order; an operator without any is not noted."""
    result: torch.dtype | None
    """Of its first floating-point result; None where it has none."""
    cast: tuple[torch.dtype, ...]
    """What inputs were before they were converted for it, by autocast or by the model's own code, each once."""


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Inside, every operator is noted in `calls`; views and copies are not.

    The operators are seen below autograd and autocast: what autocast converted arrives converted, and the conversion came before.
    A backward is told to belong to a layer by the number that autograd gave its node while the layer's forward ran.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's is untyped
        self.calls: Counter[Operation] = Counter()
        self._layers = [""]
        self._begun: list[tuple[int, str]] = []
        """From which number on nodes belong to which layer; in rising order."""
        self._converted: dict[int, tuple[Tensor, torch.dtype]] = {}

    def enter(self, layer: str) -> None:
        """The forward of a layer begins."""
        self._layers.append(layer)
        self._begun.append((_next_node(), layer))

    def leave(self) -> None:
        """It is over, and the layer around it goes on."""
        self._layers.pop()
        self._begun.append((_next_node(), self._layers[-1]))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, and note it."""
        result = func(*args, **(kwargs or {}))
        inputs = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor) and each.is_floating_point()]
        outputs = [each for each in tree_leaves(result) if isinstance(each, Tensor) and each.is_floating_point()]
        name = func._schema.name.replace("::", ".")
        base = name.rpartition(".")[2]
        if base == "_to_copy" and inputs and outputs and inputs[0].dtype is not outputs[0].dtype:
            self._converted[id(outputs[0])] = outputs[0], inputs[0].dtype
        elif _is_view(func) or base in SILENT:
            self._follow(inputs, outputs)
        elif inputs:
            self._note(name, inputs, outputs)
        return result

    def _follow(self, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """A view of what was converted was converted."""
        if inputs and id(inputs[0]) in self._converted:
            before = self._converted[id(inputs[0])][1]
            self._converted.update({id(each): (each, before) for each in outputs if each.dtype is inputs[0].dtype})

    def _note(self, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        node: Any = torch._C._current_autograd_node()
        found = Operation(
            layer=self._layers[-1] if node is None else self._layer_of(node._sequence_nr()),
            name=name,
            phase="forward" if node is None else "backward",
            inputs=tuple(dict.fromkeys(each.dtype for each in inputs)),
            result=outputs[0].dtype if outputs else None,
            cast=tuple(dict.fromkeys(self._converted[id(each)][1] for each in inputs if id(each) in self._converted)),
        )
        self.calls[found] += 1

    def _layer_of(self, number: int) -> str:
        """The layer that made a node: the last that had begun; "" for nodes that belong to no forward, such as accumulation."""
        if number >= _next_node():
            return ""
        return next((layer for begun, layer in reversed(self._begun) if begun <= number), "")


@contextmanager
def operations(model: nn.Module) -> Iterator[Operations]:
    """Note every operator that runs inside, by the layers of `model`; the hooks are gone afterwards.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.LogSoftmax(-1))
    >>> with operations(model) as seen, torch.autocast("cpu", torch.bfloat16):
    ...     _ = model(torch.ones(1, 2))
    >>> [(each.layer, each.name, each.inputs[0], each.cast) for each in seen.calls]
    [('0', 'aten.addmm', torch.bfloat16, (torch.float32,)), ('1', 'aten._log_softmax', torch.bfloat16, ())]
    """
    seen, handles = Operations(), []
    for name, module in model.named_modules():
        if name:
            handles.append(module.register_forward_pre_hook(lambda *_, name=name: seen.enter(name)))
            handles.append(module.register_forward_hook(lambda *_: seen.leave(), always_call=True))
    try:
        with seen:
            yield seen
    finally:
        for handle in handles:
            handle.remove()


def _next_node() -> int:
    return int(torch._C._autograd._get_sequence_nr())


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write
