"""Edges that odd models and loops come to, where an update once went on as if nothing were wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import truestep
from tests.engine.loops import Batch, batch, by_hand, cross_entropy, everything, mlp, poisoned, same, weights
from truestep.errors import GradientError, LossError


def test_a_penalty_that_overflows_at_the_loss_scale_lets_it_shrink() -> None:
    """WGAN-GP in float16 at the first scale of 65536: the slope of a sum is 1, and 65536 is no float16 number."""
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    update = truestep.Update(critic, torch.optim.SGD(critic.parameters(), lr=0.1), loss=lambda m, d: None, policy="fp16")
    outcomes = []
    for _ in range(3):
        with update.attempt() as attempt:
            x = torch.randn(8, 4).requires_grad_()
            with attempt.autocast():
                (slope,) = attempt.grad(critic(x).sum(), x)
                loss = (slope.norm(dim=1) - 1.0).square().mean()
            attempt.backward(loss, 8)
        outcomes.append(attempt.outcome)
    assert outcomes[0].skip.curable
    assert outcomes[0].next_loss_scale == 32768.0
    assert outcomes[-1].completed


class Switched(nn.Module):
    """Checkpoints its trunk from some moment on, as transformers' models do in training only."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk, self.head, self.saves = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 3), False

    def forward(self, x: Tensor) -> Tensor:
        if not self.saves:
            return self.head(self.trunk(x))
        return self.head(checkpoint(self.trunk, x.clone().requires_grad_(), use_reentrant=True))


def test_a_reentrant_checkpoint_that_begins_later_does_not_freeze_its_parameters_in_silence() -> None:
    model = Switched()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    assert update([batch(4)]).completed
    model.saves = True
    with pytest.raises(LossError, match="use_reentrant=False"):
        update([batch(4)])


def test_an_optimizer_without_a_learning_rate_can_be_used() -> None:
    """transformers' Adafactor, as it comes: lr is None, and it finds its own."""
    transformers = pytest.importorskip("transformers")
    hand, ours = mlp(), mlp()
    steps, our_steps = (transformers.optimization.Adafactor(m.parameters()) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=cross_entropy)
    outcome = update([batch(4), batch(3)])
    by_hand(hand, steps, [batch(4), batch(3)])
    assert same(weights(hand), weights(ours))
    assert outcome.lr == ()


def test_statistics_go_back_where_the_block_leaves_the_model_in_evaluation() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    assert update([batch(4)]).completed
    before = everything(update)
    with update.attempt() as attempt:
        attempt.backward(cross_entropy(model, poisoned(batch(4))), 4)
        model.eval()
    assert not attempt.outcome.completed
    assert same(before, everything(update))


@pytest.mark.parametrize("name", ["AdamWScheduleFreeClosure", "SGDScheduleFreeClosure"])
def test_a_step_that_moves_before_its_first_evaluation_gets_the_gradient_of_where_it_is(name: str) -> None:
    schedulefree = pytest.importorskip("schedulefree")
    hand, ours = mlp(), mlp()
    steps, our_steps = (getattr(schedulefree, name)(m.parameters(), lr=0.1) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=cross_entropy)
    for seed in range(4):
        window = [batch(4, seed), batch(2, seed + 9)]

        def closure(window: list[Any] = window) -> Tensor:
            steps.zero_grad()
            for data in window:
                (cross_entropy(hand, data) * (len(data[1]) / 6)).backward()
            return torch.zeros(())

        steps.step(closure)
        assert update(window).completed
        assert same(weights(hand), weights(ours))


def test_parameters_that_are_frozen_inside_the_loss_get_no_gradient() -> None:
    def freezing(model: nn.Module, data: Batch) -> Tensor:
        model[0].requires_grad_(False)
        return cross_entropy(model, data)

    hand, ours = mlp(), mlp()
    steps, our_steps = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (hand, ours))
    by_hand(hand, steps, [batch(4)], freezing)
    update = truestep.Update(ours, our_steps, loss=freezing)
    assert update([batch(4)]).completed
    assert same(weights(hand), weights(ours))


@pytest.mark.parametrize("policy", ["fp32", "bf16-master"])
def test_an_attempt_whose_parameters_are_all_frozen_inside_the_loss_is_refused(policy: str) -> None:
    def freezing(model: nn.Module, data: Batch) -> Tensor:
        loss = cross_entropy(model, data)
        model.requires_grad_(False)
        return loss

    update = truestep.Update(mlp(), torch.optim.AdamW, loss=freezing, policy=policy)
    before = weights(update.model)
    with pytest.raises(GradientError, match="frozen inside the attempt"):
        update([batch(4)])
    assert same(before, weights(update.model))


def test_examples_are_not_read_off_the_channels_of_a_list_of_images() -> None:
    """A batch of a detector: images of several sizes in a list, and what is in them."""
    model = nn.Conv2d(3, 2, 3)
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda m, data: sum(m(image).square().mean() for image in data[0]) / len(data[0]),
        check_weight=False,
    )
    images = [torch.zeros(3, 5, 5), torch.zeros(3, 6, 6)]
    with pytest.raises(truestep.errors.WindowError, match="examples"):
        update([(images, [{"boxes": torch.zeros(2, 4)}, {"boxes": torch.zeros(1, 4)}])])


def test_a_step_that_raised_before_it_moved_anything_can_be_tried_again() -> None:
    """A schedule-free optimizer that was left in evaluation: nothing has moved, and the update says that some may have."""
    schedulefree = pytest.importorskip("schedulefree")
    model = mlp()
    optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=0.1)
    optimizer.train()
    update = truestep.Update(model, optimizer, loss=cross_entropy)
    assert update([batch(4)]).completed
    optimizer.eval()
    with pytest.raises(Exception, match="not in train mode"):
        update([batch(4)])
    optimizer.train()
    assert update([batch(4)]).completed


@pytest.mark.parametrize("policy", ["bf16-master", "bf16-pure"])
def test_a_model_without_weights_yet_is_refused_by_name_or_taken(policy: str) -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(3))
    with pytest.raises(truestep.errors.UsageError, match=r"0\.weight"):
        truestep.Update(model, torch.optim.AdamW, loss=cross_entropy, policy=policy)


@pytest.mark.parametrize("policy", ["bf16-master", "bf16-pure"])
def test_what_a_weight_is_computed_from_stays_float32(policy: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8)), nn.Tanh(), nn.Linear(8, 3))
    update = truestep.Update(model, lambda params: torch.optim.AdamW(params, lr=1e-2), loss=cross_entropy, policy=policy)
    assert update([batch(4), batch(2)]).completed
    assert model[0].parametrizations.weight.original.dtype is torch.float32
    assert model[2].weight.dtype is torch.bfloat16
