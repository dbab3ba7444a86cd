"""How model, optimizer and schedule stand: every value by a name, comparable bit for bit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.engine.programs.world import World

Snapshot = dict[str, Any]


def taken(world: World) -> Snapshot:
    """Copies of parameters, masters, buffers, optimizer state, rates and schedules; state goes by its place in the optimizers."""
    params = list(world.model.parameters())
    found: Snapshot = {f"parameter {index}": p.detach().clone() for index, p in enumerate(params)}
    found |= {f"buffer {name}": b.detach().clone() for name, b in world.model.named_buffers()}
    own = {id(p) for p in params}
    for index, p in enumerate(world.stepped):
        if id(p) not in own:
            found[f"master {index}"] = p.detach().clone()
        for optimizer in world.optimizers:
            for key, value in optimizer.state.get(p, {}).items():
                found[f"state {index} {key}"] = value.detach().clone() if isinstance(value, Tensor) else value
    found["rates"] = [float(group["lr"]) for optimizer in world.optimizers for group in optimizer.param_groups]
    found["calls"] = getattr(world.model, "calls", None)
    found["schedule"] = [scheduler.last_epoch for scheduler in world.schedulers]
    return found


def differences(left: Snapshot, right: Snapshot) -> list[str]:
    """The names of what differs in any bit, or stands on one side alone.

    A bfloat16 on the left may be the float32 on the right rounded up or down.
    """
    return [name for name in left | right if name not in left or name not in right or not _same(left[name], right[name])]


def _same(left: Any, right: Any) -> bool:
    if not isinstance(left, Tensor):
        return bool(left == right)
    if left.dtype is torch.bfloat16 and right.dtype is torch.float32:
        return _is_neighbour(left, right)
    if left.shape != right.shape or left.dtype is not right.dtype:
        return False
    flat = (t.contiguous().reshape(-1).view(torch.uint8) for t in (left, right))
    return torch.equal(*flat)


def _is_neighbour(rounded: Tensor, value: Tensor) -> bool:
    """Whether each bfloat16 is one of the two around the float32: its bits cut off, or one more; what is not finite stays.

    Bits are compared as whole numbers, in which the next bfloat16 away from zero is one more.
    """
    low = value.view(torch.int32) >> 16  # towards zero
    step = rounded.view(torch.int16).to(torch.int32) - low
    exact = (value.view(torch.int32) & 0xFFFF) == 0
    near = (step == 0) | ((step == 1) & ~exact)
    return bool(torch.where(value.isfinite(), near, (rounded.float() == value) | (rounded.isnan() & value.isnan())).all())
