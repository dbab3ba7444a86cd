"""Losses that call the model as a function: per example, inner steps, own backwards, lazily made weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

import truestep
from tests.engine.loops import Batch, batch, by_hand, cross_entropy, everything, mlp, poisoned, same, weights


def per_example(model: nn.Module, data: Batch) -> Tensor:
    params = dict(model.named_parameters())

    def one(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, params, (x[None],)), y[None])

    return vmap(one)(*data).mean()


def after_an_inner_step(model: nn.Module, data: Batch) -> Tensor:
    """The loss after one step of gradient descent, differentiated through it (Finn et al. 2017)."""
    params = dict(model.named_parameters())

    def inner(params: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(functional_call(model, params, (data[0],)), data[1])

    slopes = grad(inner)(params)
    return inner({name: p - 0.5 * slopes[name] for name, p in params.items()})


class Rounded(torch.autograd.Function):
    """Rounds forward and passes gradients straight through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 1.0


def straight_through(model: nn.Module, data: Batch) -> Tensor:
    return F.cross_entropy(Rounded.apply(model(data[0]) * 4.0) / 4.0, data[1])


def penalized(model: nn.Module, data: Batch) -> Tensor:
    return cross_entropy(model, data) + 0.1 * sum(p.square().sum() for p in model.parameters())


def over_layers(model: nn.Module, data: Batch) -> Tensor:
    """Calls the layers itself, twice."""
    x = model[2](torch.tanh(model[0](data[0])))
    return F.cross_entropy(x + model(data[0]), data[1])


LOSSES: dict[str, Callable[[nn.Module, Batch], Tensor]] = {
    "per example": per_example,
    "inner step": after_an_inner_step,
    "custom function": straight_through,
    "penalty": penalized,
    "layers": over_layers,
}


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_may_call_the_model_as_it_likes(name: str, policy: str) -> None:
    loss = LOSSES[name]
    hand, ours = mlp(), mlp()
    steps, our_steps = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=loss, policy=policy)
    for seed in range(3):
        before = everything(update)
        assert not update([batch(4, seed), poisoned(batch(3))]).completed
        assert same(before, everything(update))
        outcome = update([batch(4, seed), batch(3, seed + 9)])
        by_hand(hand, steps, [batch(4, seed), batch(3, seed + 9)], loss, dtype=torch.bfloat16 if policy == "bf16" else None)
        assert outcome.weight_check.startswith("equals the loss's denominator")
        assert same(weights(hand), weights(ours))


def lazy() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.Tanh(), nn.LazyLinear(3))


def test_a_model_that_is_made_by_its_first_forward_trains_as_by_hand() -> None:
    hand, ours = lazy(), lazy()
    steps, our_steps = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=cross_entropy)
    windows = [[batch(4, seed), batch(3, seed + 9)] for seed in range(3)]
    torch.manual_seed(1)
    for window in windows:
        by_hand(hand, steps, window)
    torch.manual_seed(1)
    assert all(update(window).completed for window in windows)
    assert same(weights(hand), weights(ours))


def test_a_model_whose_first_forward_is_skipped_has_weights_and_no_state_and_goes_on() -> None:
    """The weights that it made stay, as random state has advanced; statistics are fresh."""
    model = lazy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    update = truestep.Update(model, optimizer, loss=cross_entropy)
    assert not update([batch(4), poisoned(batch(3))]).completed
    assert not optimizer.state
    assert model[1].running_mean.eq(0).all()
    assert model[1].num_batches_tracked == 0
    assert update([batch(4), batch(3)]).completed
