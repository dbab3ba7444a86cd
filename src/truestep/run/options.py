"""Sets options of a task's optimizer in place of the task's own: a learning rate, a weight decay, any that its groups have."""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.randomness import own_random_state
from truestep.errors import UsageError
from truestep.tasks import Task
from truestep.tasks.checking import demand_model, demand_optimizer
from truestep.tasks.place import file_of, their_code

Value = bool | float | tuple[float, ...]
"""A number, several (betas), or a switch."""
Options = tuple[tuple[str, Value], ...]
"""(name, value) by name."""

_HOW = ("params", "fused", "foreach", "capturable", "differentiable")
"""Of a group, but no setting of what is computed: an optimizer acts on them when it is made."""


def with_options(optimizer: Optimizer, options: Options) -> Optimizer:
    """`optimizer` with each of `options` in every parameter group that has one of that name; before any schedule is made of it.

    Raises:
        UsageError: a name that no group has, or a value that the option cannot be.

    >>> sgd = with_options(torch.optim.SGD([Parameter(torch.ones(1))], lr=0.1), (("lr", 0.5), ("nesterov", False)))
    >>> sgd.param_groups[0]["lr"], sgd.param_groups[0]["nesterov"]
    (0.5, False)
    """
    for name, value in options:
        groups = [group for group in optimizer.param_groups if name in group and name not in _HOW]
        if not groups:
            there = sorted({name for group in optimizer.param_groups for name in group if name not in _HOW})
            raise UsageError(
                f"{type(optimizer).__name__} has no option {name} that can be set",
                hint=f"options there are: {', '.join(there)}",
                option=name,
            )
        for group in groups:
            group[name] = _like(group[name], value, name=name)
    _demand_settings(optimizer, options)
    return optimizer


def demand_options(task: Task, options: Options) -> None:
    """UsageError unless the optimizer of `task` can be given `options`. Random state is as before."""
    if not options:
        return
    with their_code(file_of(task), failed="before the comparison began"), own_random_state(torch.device("cpu")):
        model = task.model()
        demand_model(task, model)
        optimizer = task.optimizer(list(model.parameters()))
    demand_optimizer(task, optimizer)
    with_options(optimizer, options)


def _like(present: Any, value: Value, *, name: str) -> Any:
    """`value` as the kind of thing that `present` is."""
    if present is None:
        return value
    if isinstance(present, bool):
        if isinstance(value, bool):
            return value
    elif isinstance(present, tuple | list):
        if isinstance(value, tuple) and len(value) == len(present):
            return type(present)(value)
    elif isinstance(value, float):
        if isinstance(present, Tensor):
            return torch.full_like(present, value)
        return int(value) if isinstance(present, int) and value.is_integer() else value  # SGD's momentum=0 means 0.0
    shown = "true or false" if isinstance(present, bool) else f"like {present!r}"
    raise UsageError(f"the option {name} is {shown}, and {value!r} is not", hint=f"write it {shown}", option=name)


def _demand_settings(optimizer: Optimizer, options: Options) -> None:
    """UsageError where torch's own constructor would refuse a group as it stands now; others' optimizers have no such rule."""
    kind = type(optimizer)
    for name, value in options:
        numbers = value if isinstance(value, tuple) else (value,)
        if not all(math.isfinite(number) for number in numbers):
            raise UsageError(f"the option {name} is {value}", hint="give a finite number", option=name)
    if not kind.__module__.startswith("torch.optim"):
        return
    known = inspect.signature(kind).parameters
    for group in optimizer.param_groups:
        settings = {name: value for name, value in group.items() if name in known and name not in _HOW}
        try:
            kind([Parameter(torch.zeros(1))], **settings)
        except ValueError as error:
            raise UsageError(
                f"{kind.__name__} refuses the options: {error}", hint="choose others", optimizer=kind.__name__
            ) from error
