"""A second update like a given one: on fake tensors, or on copies; the given one is left alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.clip import NoClip
from truestep.engine.policy import Policy
from truestep.engine.update import Update
from truestep.probe.tree import leaves

Like = Callable[[Tensor], Tensor]
"""From a tensor to what stands for it in the twin: the same one for tensors of one storage shares a storage."""


def faking(mode: FakeTensorMode) -> Like:
    """Fakes of one mode, which keeps what is shared."""
    return lambda tensor: mode.from_tensor(tensor).detach()


def copying() -> Like:
    """Copies; a storage is copied once, whoever shares it."""
    made: dict[int, torch.UntypedStorage] = {}

    def copied(tensor: Tensor) -> Tensor:
        if tensor.layout is not torch.strided:
            return tensor.detach().clone()
        storage = tensor.untyped_storage()
        if storage._cdata not in made:
            made[storage._cdata] = storage.clone()  # type: ignore[no-untyped-call]  # torch's is
        other = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return other.set_(made[storage._cdata], tensor.storage_offset(), tensor.size(), tensor.stride())

    return copied


def twin(update: Update[Any], like: Like, *, policy: Policy) -> Update[Any]:
    """An update of its own with model and optimizers like those of `update`, under `policy`, which may be another than its.

    The optimizers keep what state they have. No schedule, no limit of skips, no check of the weight: none of them takes memory.
    """
    plan = update.plan
    memo: dict[int, Any] = {}
    for p in plan.model.parameters():
        stand_in = like(p)
        wide = stand_in.float() if policy.weights is torch.float32 and p.requires_grad else stand_in
        memo[id(p)] = Parameter(wide, requires_grad=p.requires_grad)
    for module in plan.model.modules():
        for value in (*module._buffers.values(), *vars(module).values()):
            memo.update({id(leaf): like(leaf) for _, leaf in leaves(value) if isinstance(leaf, Tensor) and id(leaf) not in memo})
    model: nn.Module = copy.deepcopy(plan.model, memo)
    return Update(
        model,
        lambda params: _optimizers(update, params, like),
        loss=plan.loss,
        loss_is=plan.loss_is,
        weight=plan.weight,
        policy=policy,
        scale=update.scale if policy.name == plan.policy.name else None,
        clip=None if isinstance(plan.clip, NoClip) else plan.clip,
        examples=plan.examples,
        tokens=plan.tokens,
        check_weight=False,
        allow_underflow=True,
        track_moves=plan.track_moves,
    )


def like_window(window: list[Any], like: Like) -> list[Any]:
    """The microbatches with every tensor replaced."""
    memo = {id(leaf): like(leaf) for _, leaf in leaves(window) if isinstance(leaf, Tensor)}
    return [copy.deepcopy(microbatch, memo) for microbatch in window]


def _optimizers(update: Update[Any], params: list[Parameter], like: Like) -> list[Optimizer]:
    """Like those of `update`, of `params`, which stand for the model's parameters in their order."""
    names, places = update.plan.store.names(), [name for name, _ in update.plan.model.named_parameters()]
    by_name = dict(zip(places, params, strict=True))
    memo: dict[int, Any] = {}
    for p in update.plan.store.stepped:
        memo[id(p)] = by_name[names[id(p)]] if names[id(p)] in by_name else Parameter(like(p), requires_grad=p.requires_grad)
    for optimizer in update.optimizers:
        groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
        held = [leaf for _, leaf in leaves([groups, list(optimizer.state.values())]) if isinstance(leaf, Tensor)]
        memo.update({id(leaf): like(leaf) for leaf in held})
    return [_copied(optimizer, memo) for optimizer in update.optimizers]


def _copied(original: Optimizer, memo: dict[int, Any]) -> Optimizer:
    """With what __init__ alone sets, but for a `step` that a schedule has put in place, which steps the original.

    A fake gets the `foreach` pass where torch would choose it for a plain CUDA tensor.
    """
    other = copy.deepcopy(original, memo)
    for name, value in vars(original).items():
        if name not in vars(other) and not callable(value):
            setattr(other, name, copy.deepcopy(value, memo))
    for group in other.param_groups:
        by_default = group.get("foreach", False) is None and not group.get("fused")
        if by_default and all(isinstance(p.data, FakeTensor) and p.device.type == "cuda" for p in group["params"]):
            group["foreach"] = True
    return other
