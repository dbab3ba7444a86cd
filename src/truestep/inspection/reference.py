"""The same attempt in float32, which loses nothing: what low precision is held against."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from truestep.engine.attempt import demand_scalar
from truestep.engine.plan import total_of
from truestep.engine.policy import POLICIES
from truestep.engine.terms import Summand, TermShares
from truestep.engine.update import Update
from truestep.probe.operations import Operation, operations


def float32_gradients(
    update: Update[Any], window: list[Any], trained: Mapping[str, Parameter], *, count: int
) -> dict[str, Tensor]:
    """Forward and backward of the first `count` microbatches at their shares of the window, in float32 and original units.

    Returned are the sums of their gradients, by name. Nothing is stepped; buffers and random states move.
    """
    plan, sums = update.plan, dict[str, Tensor]()
    measures = plan.measure(window)
    shares = TermShares(plan.loss_is, total_of(measures))
    with POLICIES["fp32"].arithmetic(plan.device), update.in_float32():
        for microbatch, measure in islice(zip(window, measures, strict=True), count):
            loss = plan.loss_under(POLICIES["fp32"], microbatch)
            summands = _summands(update, shares, loss, measure.weight)
            if not summands:
                continue
            for name, gradient in _gradients(summands, trained, scale=1.0).items():
                sums[name] = sums[name] + gradient if name in sums else gradient
    return sums


def operations_of(update: Update[Any], window: list[Any], trained: Mapping[str, Parameter]) -> dict[Operation, int]:
    """How often each operator ran in the window's first microbatch under the policy. Buffers and random states move."""
    plan = update.plan
    measures = plan.measure(window)
    shares = TermShares(plan.loss_is, total_of(measures))
    with plan.policy.arithmetic(plan.device), operations(plan.model) as seen:
        loss = plan.loss_under(plan.policy, window[0])
        summands = _summands(update, shares, loss, measures[0].weight)
        if summands:
            _gradients(summands, trained, scale=update.scale.value)
    return dict(seen.calls)


def _summands(update: Update[Any], shares: TermShares, loss: Any, weight: Any) -> list[Summand]:
    for each in loss.values() if isinstance(loss, Mapping) else (loss,):
        demand_scalar(each)
    return shares.given(loss, 1.0) if update.plan.loss_is == "share" else shares.summands(loss, weight)


def _gradients(summands: list[Summand], trained: Mapping[str, Parameter], *, scale: float) -> dict[str, Tensor]:
    loss = sum((each.loss.float() * (scale * each.share) for each in summands), torch.zeros((), device=summands[0].loss.device))
    found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    return {name: each for name, each in zip(trained, found, strict=True) if each is not None}
