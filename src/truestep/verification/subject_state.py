"""Puts back what a verification moved: weights, gradients, optimizer state, buffers, modes, random state."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.parameters import parameters_of
from truestep.engine.randomness import Drawn, own_random_state
from truestep.probe.buffers import Buffers


@contextmanager
def keeping(model: nn.Module, optimizers: Sequence[Optimizer], device: torch.device) -> Iterator[None]:
    """Afterwards all of it is as before, whatever was raised inside. Costs one copy of weights and optimizer state."""
    params = list({id(p): p for p in (*model.parameters(), *parameters_of(*optimizers))}.values())
    weights = [(p, p.data, p.detach().clone(), p.grad, None if p.grad is None else p.grad.clone()) for p in params]
    states = [_state_of(optimizer) for optimizer in optimizers]
    modes = [(module, module.training) for module in model.modules()]
    buffers = Buffers(model)
    buffers.keep()
    with own_random_state(device):
        try:
            yield
        finally:
            buffers.restore()
            for module, training in modes:
                module.training = training
            with torch.no_grad():
                for weight in weights:
                    _put_back(*weight)
            for optimizer, (state, groups) in zip(optimizers, states, strict=True):
                _put_state(optimizer, state, groups)


class Snapshot:
    """Parameters, buffers and random state of one moment, to be returned to for a while."""

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        held = [*model.parameters(), *parameters_of(*optimizers), *model.buffers()]
        tensors = list({id(each): each for each in held}.values())
        with torch.no_grad():
            self._values = list(zip(tensors, torch._foreach_clone(tensors), strict=True))
        self._device = parameters_of(*optimizers)[0].device
        self.drawn = Drawn.now(self._device)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside it is that moment again; afterwards it is now, whatever was written or drawn inside."""
        now, drawn = [(tensor, tensor.data) for tensor, _ in self._values], Drawn.now(self._device)
        try:
            for tensor, values in self._values:
                tensor.data = values
            self.drawn.restore()
            yield
        finally:
            for tensor, data in now:
                tensor.data = data
            drawn.restore()


def _put_back(
    p: Parameter, data: torch.Tensor, values: torch.Tensor, grad: torch.Tensor | None, before: torch.Tensor | None
) -> None:
    p.grad = None  # it may have another format than the weights that return
    p.data = data
    p.copy_(values)
    if grad is not None and before is not None:
        p.grad = grad.copy_(before)


def _state_of(optimizer: Optimizer) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
    state = {p: copy.deepcopy(held) for p, held in optimizer.state.items()}
    groups: list[dict[str, Any]] = optimizer.param_groups
    return state, [{key: held if key == "params" else copy.deepcopy(held) for key, held in g.items()} for g in groups]


def _put_state(optimizer: Optimizer, state: dict[Any, Any], groups: list[dict[str, Any]]) -> None:
    optimizer.state.clear()
    optimizer.state.update(state)
    for group, kept in zip(optimizer.param_groups, groups, strict=True):
        group.clear()
        group.update(kept)
