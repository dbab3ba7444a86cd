"""How model, optimizer and schedule stand: every value by a name, comparable bit for bit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.engine.programs.world import World

Snapshot = dict[str, Any]


def taken(world: World) -> Snapshot:
    """Copies of parameters, buffers, optimizer state, rates and schedule; a parameter is named by its place in the model."""
    params = list(world.model.parameters())
    found: Snapshot = {f"parameter {index}": p.detach().clone() for index, p in enumerate(params)}
    found |= {f"buffer {name}": b.detach().clone() for name, b in world.model.named_buffers()}
    for index, p in enumerate(params):
        for key, value in world.optimizer.state.get(p, {}).items():
            found[f"state {index} {key}"] = value.detach().clone() if isinstance(value, Tensor) else value
    found["rates"] = [float(group["lr"]) for group in world.optimizer.param_groups]
    found["calls"] = getattr(world.model, "calls", None)
    if world.scheduler is not None:
        found["schedule"] = world.scheduler.last_epoch
    return found


def differences(left: Snapshot, right: Snapshot) -> list[str]:
    """The names of what differs in any bit, or stands on one side alone."""
    return [name for name in left | right if name not in left or name not in right or not _same(left[name], right[name])]


def _same(left: Any, right: Any) -> bool:
    if not isinstance(left, Tensor):
        return bool(left == right)
    if left.shape != right.shape or left.dtype is not right.dtype:
        return False
    flat = (t.contiguous().reshape(-1).view(torch.uint8) for t in (left, right))
    return torch.equal(*flat)
