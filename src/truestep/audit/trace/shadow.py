"""Steps beside the run: what the right gradient would have done from the same state, taken and taken back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from truestep.audit.events import Damage, Moved
from truestep.audit.trace.tracks import LOW, Track, norm


def put_right(track: Track, divide_by: float) -> None:
    """The optimizer is given what it should have been given, times what it will still divide by."""
    right, _ = track.expected.right(track.parameters)
    for each in track.parameters:
        gradient = right.get(id(each))
        if gradient is not None and each.grad is not None:
            each.grad.copy_(_like(gradient * divide_by, each))


def shadow_step(optimizer: Optimizer, parameters: list[Tensor], right: dict[int, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """How far each parameter moves with the right gradients; parameters, gradients, state and random state are put back."""
    kept = [(each, each.detach().clone(), each.grad) for each in parameters]
    state = {key: dict(value) for key, value in optimizer.state.items()}
    values = {id(value): value.clone() for held in state.values() for value in held.values() if isinstance(value, Tensor)}
    groups = [dict(group) for group in optimizer.param_groups]
    scaling = {name: vars(optimizer)[name] for name in ("grad_scale", "found_inf") if name in vars(optimizer)}
    counts = {name: value for name, value in vars(optimizer).items() if isinstance(value, (int, float))}
    touched = (*parameters, *(value for held in state.values() for value in held.values() if isinstance(value, Tensor)))
    versions = tuple(each._version for each in touched)
    try:
        for name in scaling:
            delattr(optimizer, name)
        for each in parameters:
            gradient = right.get(id(each))
            each.grad = None if gradient is None else _like(gradient, each)
        own = type(optimizer).step
        with torch.random.fork_rng(sorted({each.device.index for each in parameters if each.device.type == "cuda"})):
            getattr(own, "__wrapped__", own)(optimizer)
        return [(each, each.detach() - before) for each, before, _ in kept]
    finally:
        for name, value in scaling.items():
            setattr(optimizer, name, value)
        with torch.no_grad():
            for each, before, gradient in kept:
                each.copy_(before)
                each.grad = gradient
            _put_back(optimizer, state, values)
        for group, held in zip(optimizer.param_groups, groups, strict=True):
            group.clear()
            group.update(held)
        vars(optimizer).update(counts)
        torch._C._autograd._unsafe_set_version_counter(touched, versions)  # a graph may still need what was put back


def _put_back(optimizer: Optimizer, state: dict[Any, dict[str, Any]], values: dict[int, Tensor]) -> None:
    for key in [key for key in optimizer.state if key not in state]:
        del optimizer.state[key]
    for key, held in state.items():
        for value in held.values():
            if isinstance(value, Tensor):
                value.copy_(values[id(value)])
        optimizer.state[key].clear()
        optimizer.state[key].update(held)


def _like(gradient: Tensor, parameter: Tensor) -> Tensor:
    shaped = torch.view_as_complex(gradient) if parameter.is_complex() else gradient
    return shaped.to(parameter.dtype).reshape(parameter.shape)


def compared(track: Track, optimizer: Optimizer) -> tuple[Damage | None, Moved | None]:
    """What the step did beside what it should have done, and how much of low-precision parameters it moved."""
    start = track.seen.get("start") or []
    steps = [(each, each.detach() - before) for each, before in start]
    damage = None
    if "right" in track.seen:
        wrong, right = [step for _, step in steps], [step for _, step in track.seen["right"]]
        lengths = norm(wrong), norm(right)
        dot = sum(float((one.double() * other.double()).sum()) for one, other in zip(wrong, right, strict=True))
        both = lengths[0] * lengths[1]
        damage = Damage(wrong=lengths[0], right=lengths[1], cosine=dot / both if both else None)
    low = [(each, step) for each, step in steps if each.dtype in LOW and each.grad is not None]
    if not low or not (number(optimizer.param_groups[0].get("lr")) or 0.0):
        return damage, None
    asked = sum(int((each.grad != 0).sum()) for each, _ in low if each.grad is not None)
    moved = sum(int(((step != 0) & (each.grad != 0)).sum()) for each, step in low if each.grad is not None)
    return damage, Moved(dtype=str(low[0][0].dtype).removeprefix("torch."), moved=moved, asked=asked)


def number(value: Any) -> float | None:
    """A float, of a tensor too; None for what is none."""
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 else None
    return float(value) if isinstance(value, (int, float)) else None
