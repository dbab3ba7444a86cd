"""Describes a task for the protocol: data, model, optimizer and schedule in words, and digests of what words cannot hold."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from truestep.engine.randomness import own_random_state
from truestep.run import initial_digest
from truestep.run.building import data_digest
from truestep.tasks import Task
from truestep.tasks.checking import demand_model, demand_optimizer, demand_scheduler, demand_splits
from truestep.tasks.place import file_of, their_code


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a protocol states of a task."""

    data_digest: str
    splits: Mapping[str, int]
    model: str
    initial_weights: Mapping[str, str]
    """Seed -> SHA-256."""
    optimizer: str
    schedule: str


def described(task: Task, *, seeds: Sequence[int], ticks: int) -> Description:
    """The description of `task`, its schedule laid out over `ticks`; random state is as before.

    Raises:
        UsageError: the task gave something that cannot be run.
        RunError: the task's own code failed; names its line and chains its exception.
    """
    with their_code(file_of(task), failed="before the comparison began"), own_random_state(torch.device("cpu")):
        splits = task.splits()
        demand_splits(task, splits)
        model = task.model()
        demand_model(task, model)
        optimizer = task.optimizer(model.parameters())
        demand_optimizer(task, optimizer)
        said = optimizer_words(optimizer)  # before a scheduler adds its own fields
        scheduler = task.scheduler(optimizer, ticks)
        demand_scheduler(task, scheduler)
        return Description(
            data_digest=data_digest(task, splits),
            splits={name: len(split) for name, split in splits.as_dict().items()},
            model=model_words(model),
            initial_weights={str(seed): initial_digest(task, seed=seed) for seed in seeds},
            optimizer=said,
            schedule="none" if scheduler is None else f"{_object_words(scheduler)} over {ticks} ticks",
        )


def model_words(model: nn.Module) -> str:
    """Parameters and layers of a model, on one line, the same in every process: no addresses.

    >>> model_words(nn.Linear(2, 1))
    '3 parameters, initialised by the task: Linear(in_features=2, out_features=1, bias=True)'
    """
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return f"{parameters} parameters, initialised by the task: {re.sub(r' at 0x[0-9a-f]+', '', ' '.join(repr(model).split()))}"


def optimizer_words(optimizer: Optimizer) -> str:
    """An optimizer with the settings of each of its groups.

    >>> optimizer_words(torch.optim.Adadelta(nn.Linear(2, 1).parameters()))[:33]
    'Adadelta(capturable=False, differ'
    """
    groups = [
        ", ".join(f"{name}={setting_words(value)}" for name, value in sorted(group.items()) if name != "params")
        for group in optimizer.param_groups
    ]
    return f"{type(optimizer).__name__}({'; '.join(groups)})"


_PROGRESS = ("optimizer", "last_epoch", "verbose")
"""Attributes of a schedule that say where it stands, or whose it is, but not what it is."""


def _object_words(scheduler: Any) -> str:
    """A schedule by its kind and its public attributes."""
    attributes = {name: value for name, value in vars(scheduler).items() if name[0] != "_" and name not in _PROGRESS}
    return f"{type(scheduler).__name__}({', '.join(f'{name}={setting_words(value)}' for name, value in attributes.items())})"


def setting_words(value: Any) -> str:
    """A setting, written the same in every process: no addresses.

    >>> setting_words([0.9, functools.partial(round, ndigits=2), nn.Linear])
    '(0.9, round(ndigits=2), Linear)'
    """
    if isinstance(value, Tensor):
        return repr(value.tolist())
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(setting_words, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{setting_words(key)}: {setting_words(item)}' for key, item in value.items())}}}"
    if isinstance(value, functools.partial):
        arguments = [*map(setting_words, value.args), *(f"{name}={setting_words(item)}" for name, item in value.keywords.items())]
        return f"{setting_words(value.func)}({', '.join(arguments)})"
    return str(getattr(value, "__qualname__", type(value).__qualname__))
