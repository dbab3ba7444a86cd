"""Refuses a task that cannot be run, by the line at fault. Calls nothing of the task."""

from __future__ import annotations

import inspect
import math
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from truestep.errors import TaskError
from truestep.tasks.place import line_of
from truestep.tasks.task import Splits, Task


def demand_class(cls: type[Task]) -> None:
    """TaskError for a class that lacks a method of Task."""
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))
        raise TaskError(
            f"{line_of(cls)}: task {cls.__name__} lacks the method {missing}",
            hint="write it; help(truestep.tasks.Task) says what each method returns",
            missing=missing,
        )


def demand_task(task: Task) -> None:
    """TaskError for a number or a word of the task that is missing or cannot be."""
    _demand(task, "name", str, "a name", bool)
    _demand(task, "quality_name", str, "the name of its quality", bool)
    _demand(task, "quality_better", str, '"higher" or "lower"', lambda word: word in ("higher", "lower"))
    _demand(task, "batch", int, "a number of examples", lambda number: number >= 1)
    _demand(task, "updates", int, "a number of effective updates", lambda number: number >= 1)
    _demand(task, "microbatches", int, "from 1 to `batch`", lambda number: 1 <= number <= task.batch)
    _demand(task, "evaluate_every", int | None, "a number of examples, or None", lambda n: n is None or n >= 1)
    _demand(task, "workers", int | None, "a number of processes, or None", lambda number: number is None or number >= 0)
    _demand(task, "target", float | int | None, "a finite number, or None", lambda x: x is None or math.isfinite(x))


def demand_splits(task: Task, splits: object) -> None:
    """TaskError unless the three splits are there and hold examples."""
    if not isinstance(splits, Splits):
        raise _wrong(task, "splits", f"returned a {type(splits).__name__}", "return truestep.tasks.Splits(train=...)")
    for name, dataset in splits.as_dict().items():
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            hint = "give a map-style dataset: one with a length, and an item for each index"
            raise _wrong(task, "splits", f"gave a {name} split without a length or items ({type(dataset).__name__})", hint)
        if len(dataset) == 0:
            raise _wrong(task, "splits", f"gave a {name} split without examples", "give each split an example at least")


def demand_model(task: Task, model: object) -> None:
    """TaskError unless it is a module with a parameter that can be trained."""
    if not isinstance(model, nn.Module):
        raise _wrong(task, "model", f"returned a {type(model).__name__}", "return a torch.nn.Module")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise _wrong(task, "model", "returned a model without a parameter to train", "return one that can learn")


def demand_optimizer(task: Task, optimizer: object) -> None:
    """TaskError unless it is an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise _wrong(task, "optimizer", f"returned a {type(optimizer).__name__}", "return a torch.optim.Optimizer")


def demand_scheduler(task: Task, scheduler: object) -> None:
    """TaskError unless it is a schedule or None."""
    if scheduler is not None and not isinstance(scheduler, LRScheduler):
        raise _wrong(task, "scheduler", f"returned a {type(scheduler).__name__}", "return an LRScheduler, or None")


def demand_quality(task: Task, quality: object) -> float:
    """The quality as a float; TaskError for anything that is no single number."""
    try:
        return float(quality)  # type: ignore[arg-type]  # that it may not be a number is the point
    except (TypeError, ValueError, RuntimeError) as error:
        raise _wrong(task, "quality", f"returned a {type(quality).__name__}", "return one number") from error


def _demand(task: Task, name: str, kind: Any, wanted: str, holds: Any) -> None:
    if not hasattr(task, name):
        raise TaskError(f"{line_of(task)}: task {type(task).__name__} does not say its {name}", hint=f"{name} is {wanted}")
    value = getattr(task, name)
    if isinstance(value, bool) or not isinstance(value, kind) or not holds(value):
        raise TaskError(f"{line_of(task)}: {type(task).__name__}.{name} is {value!r}", hint=f"{name} is {wanted}")


def _wrong(task: Task, method: str, what: str, hint: str) -> TaskError:
    place = line_of(getattr(type(task), method))
    return TaskError(f"{place}: {type(task).__name__}.{method}() {what}", hint=hint, task=type(task).__name__)
