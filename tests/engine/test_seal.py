"""What a block does to gradients and optimizer behind the attempt's back is an error, and nothing has happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import truestep
from tests.engine.loops import same, weights
from truestep.errors import StateError


class Line(nn.Module):
    """A model whose gradient is its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))


def slope(model: nn.Module, x: Tensor) -> Tensor:
    return (model.weight * x).sum()


def build(scale: truestep.LossScale | None = None) -> truestep.Update:
    model = Line()
    scale = truestep.LossScale.static(2.0**16) if scale is None else scale
    return truestep.Update(model, torch.optim.SGD(model.parameters(), lr=1.0), loss=slope, loss_is="share", scale=scale)


SMALL, HUGE = torch.tensor([0.02, 0.02]), torch.tensor([1e35, 0.02])
TAMPERING: dict[str, Callable[[nn.Module, torch.optim.Optimizer], object]] = {
    "clip by norm": lambda model, optimizer: clip_grad_norm_(model.parameters(), 1.0),
    "clip by value": lambda model, optimizer: clip_grad_value_(model.parameters(), 1.0),
    "divide": lambda model, optimizer: model.weight.grad.div_(65536.0),
    "fill with zeros": lambda model, optimizer: optimizer.zero_grad(set_to_none=False),
    "zero": lambda model, optimizer: optimizer.zero_grad(),
    "replace": lambda model, optimizer: setattr(model.weight, "grad", SMALL.clone()),
    "backward": lambda model, optimizer: slope(model, SMALL).backward(),
    "step": lambda model, optimizer: optimizer.step(),
}


@pytest.mark.parametrize("tamper", TAMPERING.values(), ids=TAMPERING)
@pytest.mark.parametrize("more", [False, True])
def test_gradients_changed_inside_a_block_are_an_error(tamper: Callable[..., object], more: bool) -> None:
    update = build()
    model, optimizer = update.plan.model, update.optimizers[0]
    before = weights(model)
    with pytest.raises(StateError, match="inside the attempt"), update.attempt() as attempt:
        attempt.backward(slope(model, SMALL), share=1.0)
        tamper(model, optimizer)
        if more:
            attempt.backward(slope(model, SMALL), share=1.0)
    assert same(before, weights(model))
    assert update.counts.attempts == 0
    assert model.weight.grad is None


def test_an_infinity_clipped_inside_a_block_is_no_completed_attempt() -> None:
    update = build()
    with pytest.raises(StateError, match="changed inside the attempt"), update.attempt() as attempt:
        attempt.backward(slope(update.plan.model, HUGE), share=1.0)
        clip_grad_value_(update.plan.model.parameters(), 1.0)


def test_outside_an_attempt_the_optimizer_steps_as_ever() -> None:
    update = build(truestep.LossScale.none())
    update([SMALL])
    update.optimizers[0].step()
    assert torch.equal(update.plan.model.weight.detach(), -2 * SMALL)


def test_two_updates_may_share_an_optimizer_that_steps_for_each() -> None:
    first = build(truestep.LossScale.none())
    second = truestep.Update(first.plan.model, first.optimizers[0], loss=slope, loss_is="share")
    assert first([SMALL]).completed
    assert second([SMALL]).completed


def test_reading_a_gradient_inside_a_block_is_no_change() -> None:
    update = build(truestep.LossScale.none())
    with update.attempt() as attempt:
        attempt.backward(slope(update.plan.model, SMALL), share=1.0)
        assert float(update.plan.model.weight.grad.norm()) > 0
    assert attempt.outcome.completed


@pytest.mark.parametrize(("limit", "scale"), [(1e34, 2.0**16), (1e3, 2.0**127)])
def test_a_clip_value_beyond_float32_in_stored_units_cuts_nothing(limit: float, scale: float) -> None:
    model = Line()
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0),
        loss=slope,
        loss_is="share",
        scale=truestep.LossScale.static(scale),
        clip=truestep.ClipValue(limit),
    )
    outcome = update([SMALL])
    assert outcome.grad_norm_clipped == outcome.grad_norm
    assert torch.equal(-model.weight.detach(), SMALL)
