"""Law 2: an attempt is completed exactly when the optimizer's state advanced, fused or not; never inferred from a loss."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import truestep
from tests.engine.loops import OPTIMIZERS, batch, cross_entropy, mlp, optimizer_state, poisoned, same, weights


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "sgd"])
@pytest.mark.parametrize("poisons", [(False, True, False, True), (True, False, True, False)])
def test_completed_says_whether_the_optimizer_state_advanced(policy: str, optimizer: str, poisons: tuple[bool, ...]) -> None:
    model = mlp()
    steps = OPTIMIZERS[optimizer](model.parameters())
    update = truestep.Update(model, steps, loss=cross_entropy, policy=policy)
    for seed, poison in enumerate(poisons):
        before = optimizer_state(steps)
        data = batch(4, seed)
        outcome = update([poisoned(data) if poison else data])
        assert outcome.completed is not poison
        assert same(before, optimizer_state(steps)) is poison


def test_a_loss_that_is_not_finite_with_a_finite_gradient_completes() -> None:
    def loss(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return cross_entropy(model, data) + math.inf  # a constant: the gradient knows nothing of it

    model = mlp()
    before = weights(model)
    outcome = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss)([batch(4)])
    assert outcome.completed
    assert outcome.loss == math.inf
    assert not same(before, weights(model))


def test_a_finite_loss_with_an_undefined_gradient_is_skipped() -> None:
    model = nn.Linear(3, 1, bias=False)
    nn.init.zeros_(model.weight)
    update = truestep.Update(
        model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda model, x: model(x).square().sum(1).sqrt().mean()
    )
    outcome = update([torch.ones(2, 3)])
    assert outcome.loss == 0.0
    assert outcome.skip is not None
    assert outcome.skip.reason is truestep.Reason.UNDEFINED
    assert outcome.skip.place == "weight"


def test_a_completed_attempt_may_move_nothing_and_says_so_when_asked() -> None:
    model = mlp()
    update = truestep.Update(model, torch.optim.AdamW(model.parameters(), lr=0.0), loss=cross_entropy, track_moves=True)
    outcome = update([batch(4)])
    assert outcome.completed
    assert outcome.moved() is False
    update.optimizers[0].param_groups[0]["lr"] = 1e-2
    assert update([batch(4)]).moved() is True
    assert update([poisoned(batch(4))]).moved() is False


def test_asking_for_moves_that_nobody_tracked_is_an_error() -> None:
    model = mlp()
    outcome = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)([batch(4)])
    with pytest.raises(truestep.errors.StateError, match="track_moves=True"):
        outcome.moved()
