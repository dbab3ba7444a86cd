"""Undoes whatever a loop or an Update did: weights, optimizers, gradients, modes, buffers, draws; schedules, scale, counts."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.parameters import parameters_of
from truestep.engine.randomness import random_state, set_random_state
from truestep.engine.stepping import put_state
from truestep.engine.update import Update
from truestep.probe.buffers import Buffers


@contextmanager
def undone(update: Update[Any]) -> Iterator[None]:
    """Inside, updates may be made; afterwards the update is as before, and goes on as if none had been made.

    What a forward writes into plain attributes of modules that own no buffers stays, and so does what the loss's own code keeps.

    Private members of the update are read, for nothing public holds all of them: `state_dict` has its scale and counts alone, and
    `load_state_dict` would clear what tells that a schedule was moved by hand, or that a step was torn.
    """
    store, checks = update.plan.store, update._weight_check
    schedules = [(each, copy.deepcopy(each.state_dict())) for each in update.schedulers]
    objects = [update, update._schedule, update._reach, store, store.all_or_none]
    kept = [(each, dict(vars(each))) for each in objects]
    checked = {term: copy.copy(check) for term, check in checks._checks.items()}
    with put_back(update.model, update.optimizers, besides=store.movable()):
        try:
            yield
        finally:
            for schedule, state in schedules:
                schedule.load_state_dict(state)
            for each, attributes in kept:
                vars(each).clear()
                vars(each).update(attributes)
            checks._checks = checked
            torch.clear_autocast_cache()


@contextmanager
def put_back(model: nn.Module, optimizers: Sequence[Optimizer], *, besides: Sequence[Parameter] = ()) -> Iterator[None]:
    """Afterwards the model, its optimizers and all random state are as before, whatever was raised inside.

    Costs one copy of weights and optimizer state; `besides` are parameters that neither of them tells of.
    """
    params = list({id(p): p for p in (*model.parameters(), *parameters_of(*optimizers), *besides)}.values())
    weights = [(p, p.data, p.detach().clone(), p.grad, None if p.grad is None else p.grad.clone()) for p in params]
    states = [_state_of(optimizer) for optimizer in optimizers]
    modes = [(module, module.training) for module in model.modules()]
    buffers, drawn = Buffers(model), random_state()
    buffers.keep()
    try:
        yield
    finally:
        buffers.restore()
        for module, training in modes:
            module.training = training
        with torch.no_grad():
            for weight in weights:
                _put_weight(*weight)
        for optimizer, (state, groups) in zip(optimizers, states, strict=True):
            put_state(optimizer, state, groups)
        set_random_state(drawn)


def _put_weight(p: Parameter, data: Tensor, values: Tensor, grad: Tensor | None, before: Tensor | None) -> None:
    p.grad = None  # it may have another format than the weights that return
    p.data = data
    p.copy_(values)
    if grad is not None and before is not None:
        p.grad = grad.copy_(before)


def _state_of(optimizer: Optimizer) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
    """Copied to the bottom, for a learning rate may be a tensor that a schedule writes in place."""
    state = {p: copy.deepcopy(held) for p, held in optimizer.state.items()}
    groups: list[dict[str, Any]] = optimizer.param_groups
    return state, [{key: held if key == "params" else copy.deepcopy(held) for key, held in g.items()} for g in groups]
