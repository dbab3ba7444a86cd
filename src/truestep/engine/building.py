"""What `Update` is given, brought to what the engine works with: a store of weights, and schedulers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.clock import demand_scheduler
from truestep.engine.demands import demand_model
from truestep.engine.masters import Masters
from truestep.engine.policy import Policy
from truestep.engine.pure import Pure
from truestep.engine.store import Store
from truestep.errors import PolicyError

Given = Optimizer | Sequence[Optimizer] | Callable[[list[Parameter]], Optimizer | Sequence[Optimizer]]


def store_of(policy: Policy, model: nn.Module, optimizer: Given) -> Store:
    """The store of this policy, with its optimizers."""
    demand_model(model)
    if policy.weights is torch.float32:
        return Store(model, _optimizers(optimizer(list(model.parameters())) if callable(optimizer) else optimizer))
    if not callable(optimizer):
        raise PolicyError(
            f"policy {policy.name} steps other tensors than the model's float32 parameters, and builds its optimizer from them",
            hint="pass a function from parameters to it: optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3)",
            policy=policy.name,
        )
    kind = Masters if policy.rounding == "nearest" else Pure
    return kind(model, lambda params: _optimizers(optimizer(params)), policy)


def schedulers_of(scheduler: Any, optimizers: Sequence[Optimizer]) -> tuple[Any, ...]:
    """The schedulers: none, one, several, or what a function or a class makes of the optimizer, or of the list of them."""
    if scheduler is None:
        return ()
    if callable(scheduler) and (isinstance(scheduler, type) or not hasattr(scheduler, "step")):
        return schedulers_of(scheduler(optimizers[0] if len(optimizers) == 1 else list(optimizers)), optimizers)
    schedulers = tuple(scheduler) if isinstance(scheduler, (list, tuple)) else (scheduler,)
    for each in schedulers:
        demand_scheduler(each, optimizers)
    return schedulers


def _optimizers(given: Any) -> tuple[Optimizer, ...]:
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)
