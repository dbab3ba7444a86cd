"""Undoes whatever updates did to an Update and its model: weights, optimizers, schedules, scale, counts, buffers, draws."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from truestep.engine.randomness import own_random_state, random_state, set_random_state
from truestep.engine.stepping import AllOrNone
from truestep.engine.update import Update
from truestep.probe.buffers import Buffers


class _Over(Exception):
    """Ends the step that all of it is made to look like, so that its end gives back what was there before."""


@contextmanager
def undone(update: Update[Any]) -> Iterator[None]:
    """Inside, updates may be made; afterwards all is as before, gradients too.

    Weights, optimizer states and settings come back as after a step that raised. What a forward writes into plain attributes of
    modules that own no buffers stays, and so does what the loss's own code keeps.

    Private members of the update are read, for nothing public holds all of them: `state_dict` has its scale and counts alone, and
    `load_state_dict` would clear what tells that a schedule was moved by hand, or that a step was torn.
    """
    plan = update.plan
    model, store = plan.model, plan.store
    params = list({id(each): each for each in (*store.movable(), *model.parameters())}.values())
    gradients = [(each, each.grad) for each in params]
    buffers, drawn = Buffers(model), random_state()
    buffers.keep()
    schedules = [(each, copy.deepcopy(each.state_dict())) for each in update.schedulers]
    objects = [update, update._schedule, update._reach, store, store.all_or_none]
    kept = [(each, dict(vars(each))) for each in objects]
    checks = update._weight_check
    checked = {term: copy.copy(check) for term, check in checks._checks.items()}
    try:
        with own_random_state(plan.device), AllOrNone(store.optimizers)(params, undoable=True):
            yield
            raise _Over
    except _Over:
        pass
    finally:
        buffers.restore()
        for schedule, state in schedules:
            schedule.load_state_dict(state)
        for each, attributes in kept:
            vars(each).clear()
            vars(each).update(attributes)
        checks._checks = checked
        for parameter, gradient in gradients:
            parameter.grad = gradient
        set_random_state(drawn)
        torch.clear_autocast_cache()
