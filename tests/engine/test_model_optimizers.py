"""Every optimizer that steps from one gradient, torch's and others', makes the steps that it makes by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import truestep
from tests.engine.loops import batch, by_hand, cross_entropy, everything, mlp, optimizer_state, poisoned, same, weights
from truestep.errors import OptimizerError

schedulefree = pytest.importorskip("schedulefree")
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adadelta": torch.optim.Adadelta,
    "adafactor": torch.optim.Adafactor,
    "adagrad": lambda params: torch.optim.Adagrad(params, initial_accumulator_value=0.1, lr_decay=0.1),
    "adamax": torch.optim.Adamax,
    "amsgrad": lambda params: torch.optim.Adam(params, amsgrad=True, maximize=True),
    "asgd": lambda params: torch.optim.ASGD(params, t0=1),
    "foreach adam": lambda params: torch.optim.Adam(params, foreach=True),
    "nadam": torch.optim.NAdam,
    "nesterov": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "radam": lambda params: torch.optim.RAdam(params, decoupled_weight_decay=True),
    "rmsprop": lambda params: torch.optim.RMSprop(params, momentum=0.9, centered=True, foreach=False),
    "rprop": torch.optim.Rprop,
    "muon": lambda params: torch.optim.Muon([p for p in params if p.ndim == 2]),
    "schedule-free adamw": lambda params: schedulefree.AdamWScheduleFree(params, lr=0.1, warmup_steps=2),
    "schedule-free sgd": lambda params: schedulefree.SGDScheduleFree(params, lr=0.1),
    "schedule-free radam": lambda params: schedulefree.RAdamScheduleFree(params, lr=0.1, foreach=False),
}


def built(name: str, model: nn.Module) -> torch.optim.Optimizer:
    optimizer = OPTIMIZERS[name](model.parameters())
    if "schedule-free" in name:
        optimizer.train()
    return optimizer


def windows() -> list[list[Any]]:
    return [[batch(4, seed), batch(2, seed + 10)] for seed in range(4)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_of_any_kind_makes_the_steps_that_it_makes_by_hand_whatever_is_skipped_between(name: str) -> None:
    hand, ours = mlp(), mlp()
    steps, our_steps = (built(name, m) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=cross_entropy)
    for window in windows():
        before = everything(update)
        assert not update([window[0], poisoned(batch(3))]).completed
        assert same(before, everything(update))
        assert update(window).completed
        by_hand(hand, steps, window)
        assert same(weights(hand), weights(ours))
        assert same(optimizer_state(steps), optimizer_state(our_steps))


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if "schedule-free" in name])
def test_a_schedule_free_optimizer_may_be_evaluated_between_attempts(name: str) -> None:
    hand, ours = mlp(), mlp()
    steps, our_steps = (built(name, m) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=cross_entropy, clip=truestep.ClipNorm(1e6))
    for window in windows():
        assert update(window).completed
        by_hand(hand, steps, window)
        for optimizer in (steps, our_steps):
            optimizer.eval()
        assert same(weights(hand), weights(ours))
        for optimizer in (steps, our_steps):
            optimizer.train()


@pytest.mark.parametrize("completed_before", [0, 2])
def test_an_optimizer_that_refuses_to_step_leaves_everything_as_it_was(completed_before: int) -> None:
    """A schedule-free one that was left in evaluation raises inside its step, before it has changed anything."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    optimizer = built("schedule-free adamw", model)
    update = truestep.Update(model, optimizer, loss=cross_entropy, policy="fp16", scale=truestep.LossScale.dynamic(1024.0))
    for window in windows()[:completed_before]:
        assert update(window).completed
    optimizer.eval()
    before, counts, scale = everything(update), update.counts, update.scale
    groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    with pytest.raises(Exception, match="not in train mode"):
        update(windows()[0])
    assert same(before, everything(update))
    assert groups == [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    assert (update.counts, update.scale) == (counts, scale)
    assert all(p.grad is None for p in model.parameters())
    optimizer.train()
    update.load_state_dict(update.state_dict())  # says that all is whole, where the update has its doubts
    assert update(windows()[0]).completed


def test_what_only_looks_like_an_optimizer_is_refused_by_name() -> None:
    model = mlp()
    wrapper = schedulefree.ScheduleFreeWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(OptimizerError, match="ScheduleFreeWrapper"):
        truestep.Update(model, wrapper, loss=cross_entropy)


def test_adafactor_of_transformers_steps_as_by_hand() -> None:
    transformers = pytest.importorskip("transformers")
    hand, ours = mlp(), mlp()
    steps, our_steps = (
        transformers.optimization.Adafactor(m.parameters(), lr=1e-2, relative_step=False, scale_parameter=True)
        for m in (hand, ours)
    )
    update = truestep.Update(ours, our_steps, loss=cross_entropy)
    for window in windows():
        assert update(window).completed
        by_hand(hand, steps, window)
    assert same(weights(hand), weights(ours))
