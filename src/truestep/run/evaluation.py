"""A model's quality on a split, in one reference precision whatever it is trained in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from truestep.engine.policy import Policy
from truestep.engine.randomness import own_random_state
from truestep.run.isolation import seed_all
from truestep.run.sampling import derived
from truestep.tasks import Task
from truestep.tasks.checking import demand_quality


def evaluate(task: Task, model: nn.Module, dataset: Any, *, seed: int, device: torch.device) -> float:
    """The task's quality in float32, in eval mode, without gradients; NaN where the model's weights are not finite.

    Training notices nothing of it: each module's mode and all random state are as before. A quality that draws at random
    draws the same at every evaluation.
    """
    if not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        return float("nan")
    reference = Policy.named("fp32")
    with own_random_state(device), _eval_mode(model), reference.arithmetic(device), torch.no_grad():
        seed_all(derived(seed, "evaluation"), device)
        return demand_quality(task, task.quality(model, dataset))


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Every module in eval mode inside, and afterwards in the mode that it had, be it another than its parent's."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
