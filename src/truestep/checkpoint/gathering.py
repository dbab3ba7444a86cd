"""What a checkpoint holds: the states of an update's parts and of the caller's, in plain values and tensors."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from truestep.checkpoint.file import why
from truestep.engine.randomness import random_state
from truestep.engine.update import Update
from truestep.errors import CheckpointError


def state_of(update: Update[Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """The states by kind; no tensor of them is copied but those that have to be widened."""
    return {
        **own_state(update),
        "random": random_state(),
        "parts": {name: {"has_state": has_state(part), "value": _part_state(part)} for name, part in parts.items()},
    }


def own_state(update: Update[Any]) -> dict[str, Any]:
    """What an update needs to go on, besides random state; StateError after a step that an exception ended halfway."""
    update.plan.store.all_or_none.demand_whole()
    return {
        "policy": update.plan.policy.name,
        "model": model_state(update),
        "buffers": passing_buffers(update.model),
        "optimizers": [
            {"kind": kind(o), "parameters": parameter_names(update, o), "state": o.state_dict()} for o in update.optimizers
        ],
        "schedulers": [{"kind": kind(scheduler), "state": scheduler.state_dict()} for scheduler in update.schedulers],
        "update": update.state_dict(),
    }


def _part_state(part: Any) -> Any:
    """What is kept of a part: of another update all that it needs, of NumPy's numbers the number."""
    if isinstance(part, Update):
        return own_state(part)
    if has_state(part):
        return part.state_dict()
    return part.item() if isinstance(part, np.generic) else part


def model_state(update: Update[Any]) -> dict[str, Any]:
    """The model's state with its weights in float32, the masters where there are some; StateError inside an attempt."""
    with update.in_float32():
        return update.model.state_dict()


def passing_buffers(model: nn.Module) -> dict[str, Tensor]:
    """The buffers that a module's own state leaves out (persistent=False), by name: a forward may write them all the same."""
    return {
        f"{prefix}.{name}" if prefix else name: buffer
        for prefix, module in model.named_modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and name in module._non_persistent_buffers_set
    }


def set_passing_buffers(model: nn.Module, buffers: Mapping[str, Tensor]) -> None:
    """Make these what `passing_buffers` gives: written in place where one of the shape is there, else put there."""
    for path, value in buffers.items():
        prefix, _, name = path.rpartition(".")
        module = model.get_submodule(prefix)
        there = module._buffers.get(name)
        if there is not None and there.shape == value.shape and there.dtype is value.dtype:
            there.copy_(value)
        else:
            device = next((p.device for p in model.parameters()), value.device)
            module.register_buffer(name, value.to(device), persistent=False)


def has_state(part: Any) -> bool:
    """Whether a part gives and takes a state, and is no plain value."""
    return all(callable(getattr(part, name, None)) for name in ("state_dict", "load_state_dict"))


def kind(thing: object) -> str:
    """The class of an optimizer or a scheduler."""
    return type(thing).__qualname__


def parameter_names(update: Update[Any], optimizer: Optimizer) -> list[list[str]]:
    """The names of the optimizer's parameters by group: its state knows them by their places only."""
    names = update.plan.store.names()
    return [[names[id(parameter)] for parameter in group["params"]] for group in optimizer.param_groups]


def unloadable(state: Mapping[str, Any]) -> CheckpointError | None:
    """The error that names the first value of `state` that could not be loaded again; None where each could.

    Asked only after the whole has failed: it writes and reads each value.
    """
    for place, value in _named(state):
        if (found := _culprit(place, value)) is not None:
            where, what, error = found
            return CheckpointError(
                f"{where} is a {type(what).__name__} that a checkpoint cannot hold: {why(error)}",
                hint="give tensors, numbers, texts, and lists and dictionaries of them, or an object whose state_dict() does",
                place=where,
                kind=type(what).__name__,
            )
    return None


def _named(state: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each value that somebody gave, under the name that they know it by."""
    yield "the state of the model", state["model"]
    for one in ("optimizer", "scheduler"):
        for number, entry in enumerate(state[f"{one}s"]):
            yield f"the state of {one} {number} ({entry['kind']})", entry["state"]
    for name, part in state["parts"].items():
        yield f"the part {name!r}", part["value"]


def _culprit(place: str, value: Any) -> tuple[str, Any, Exception] | None:
    """The innermost value below `place` that cannot be saved and loaded, with what torch says of it."""
    error = _trouble(value)
    if error is None:
        return None
    items: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    within = (_culprit(f"{place}, at {key!r}", item) for key, item in items if not isinstance(item, Tensor))
    return next((found for found in within if found is not None), (place, value, error))


def _trouble(value: Any) -> Exception | None:
    file = io.BytesIO()
    try:
        torch.save(value, file)
        file.seek(0)
        torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a value's own pickling raises
        return error
    return None
