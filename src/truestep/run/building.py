"""Makes what a run needs from a task and its settings: data, the initial model, the update. Everything here asks the task."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.policy import Policy
from truestep.engine.randomness import own_random_state
from truestep.engine.update import Update
from truestep.engine.windows import Window
from truestep.errors import UsageError
from truestep.run.faulty import HandWritten
from truestep.run.isolation import seed_all
from truestep.run.options import with_options
from truestep.run.sampling import derived
from truestep.run.settings import Plan, Settings, plan_of
from truestep.tasks import Splits, Task
from truestep.tasks.checking import demand_model, demand_optimizer, demand_scheduler, demand_splits
from truestep.tasks.digest import digest


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A run that is ready for its first attempt."""

    plan: Plan
    splits: Splits
    model: nn.Module
    update: Update[Any]
    data_digest: str
    initial_digest: str


def build(task: Task, settings: Settings, *, seed: int, device: torch.device, policy: Policy | None = None) -> Setup:
    """The setup of a run; the weights are drawn on the CPU, hence the same on every device.

    Args:
        policy: one that has no name in the settings' list, in place of theirs.

    Raises:
        UsageError: what was asked, or what the task gave, cannot be run. Anything else comes from the task's own code.
    """
    splits = task.splits()
    demand_splits(task, splits)
    data = data_digest(task, splits)
    plan = plan_of(task, settings, examples=len(splits.train))
    model = _initial_model(task, seed=seed, device=device)
    initial_digest = weights_digest(model)
    model.to(device)
    kind: Any = Update if settings.fault is None else functools.partial(HandWritten, fault=settings.fault)
    update: Update[Any] = kind(
        model,
        lambda params: with_options(_optimizer(task, params), settings.optimizer),
        loss=task.loss,
        weight=task.weight,
        policy=settings.policy if policy is None else policy,
        scale=settings.scale,
        allow_underflow=settings.allow_underflow,
        clip=settings.clip,
        scheduler=lambda optimizer: _scheduler(task, optimizer, ticks=plan.ticks),
        clock=settings.clock,
        examples=task.examples,
        tokens=task.tokens,
        max_consecutive_skips=settings.max_consecutive_skips,
        time_stages=settings.time_stages,
    )
    return Setup(plan=plan, splits=splits, model=model, update=update, data_digest=data, initial_digest=initial_digest)


def data_digest(task: Task, splits: Splits) -> str:
    """SHA-256 over the data of `splits` as the task's own digest() takes it, without loading them again.

    Items that are augmented at random are drawn under one seed: the same in every process. Random state is as before.
    """
    held = copy.copy(task)
    vars(held)["splits"] = lambda: splits
    cpu = torch.device("cpu")
    with own_random_state(cpu):
        seed_all(0, cpu)
        return held.digest()


def initial_digest(task: Task, *, seed: int) -> str:
    """SHA-256 of the weights that every run of `task` with `seed` starts from. Random state is as before."""
    cpu = torch.device("cpu")
    with own_random_state(cpu):
        return weights_digest(_initial_model(task, seed=seed, device=cpu))


def weights_digest(model: nn.Module) -> str:
    """SHA-256 over the tensors of the model's state and their names.

    >>> weights_digest(nn.Linear(1, 1)) == weights_digest(nn.Linear(1, 1))
    False
    """
    return digest({name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)})


def device_of(asked: str | None) -> torch.device:
    """The device to run on; UsageError for one that is not there, for nothing is put in its place.

    >>> device_of("cpu")
    device(type='cpu')
    """
    has_cuda = torch.cuda.is_available()
    if asked is None:
        return torch.device("cuda" if has_cuda else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError as error:  # torch knows no such word
        raise UsageError(f"no device is called {asked!r}", hint='write "cpu", "cuda" or "cuda:N"', asked=asked) from error
    if device.type not in ("cpu", "cuda") or (device.index or 0) >= (torch.cuda.device_count() if device.type == "cuda" else 1):
        there = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise UsageError(f"device {asked} is not there", hint=f"choose one of: {', '.join(there)}", asked=asked)
    return device


def moved(value: Any, device: torch.device) -> Any:
    """A microbatch on `device`: whatever in it has `to`, inside lists, tuples and dictionaries."""
    if device.type == "cpu":
        return value
    if hasattr(value, "to"):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(item, device) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device) for item in value)
    if isinstance(value, dict):
        return {key: moved(item, device) for key, item in value.items()}
    return value


def on_device(window: Window[Any], device: torch.device) -> Window[Any]:
    """A window with each microbatch on `device`, that ends an epoch where it did."""
    there: Window[Any] = Window(moved(microbatch, device) for microbatch in window)
    there.ends_epoch = window.ends_epoch
    return there


def _optimizer(task: Task, params: list[Parameter]) -> Optimizer:
    optimizer = task.optimizer(params)
    demand_optimizer(task, optimizer)
    return optimizer


def _scheduler(task: Task, optimizer: Optimizer, *, ticks: int) -> Any:
    scheduler = task.scheduler(optimizer, ticks)
    demand_scheduler(task, scheduler)
    return scheduler


def _initial_model(task: Task, *, seed: int, device: torch.device) -> nn.Module:
    seed_all(derived(seed, "weights"), device)
    model = task.model()
    demand_model(task, model)
    return model
