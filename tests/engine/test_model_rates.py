"""Learning rates that are tensors, and schedules over them: recorded as numbers before the tick, stepped as by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import truestep
from tests.engine.loops import batch, by_hand, cross_entropy, mlp, poisoned, same, weights

RATE = 2.0**-6
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adamw": lambda params: torch.optim.AdamW(params, lr=torch.tensor(RATE)),
    "fused adamw": lambda params: torch.optim.AdamW(params, lr=torch.tensor(RATE), fused=True),
    "fused sgd": lambda params: torch.optim.SGD(params, lr=torch.tensor(RATE), momentum=0.9, fused=True),
    "sgd": lambda params: torch.optim.SGD(params, lr=torch.tensor(RATE)),
    "foreach sgd": lambda params: torch.optim.SGD(params, lr=torch.tensor(RATE), foreach=True),
}
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "none": lambda optimizer: None,
    "halving": lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8),
    "warmup": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda tick: (tick + 1) / 4),
    "chained": lambda optimizer: torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.25, total_iters=2),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4),
        ],
        milestones=[2],
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_tensor_learning_rate_is_stepped_as_by_hand_and_recorded_as_a_number_before_the_tick(name: str, schedule: str) -> None:
    hand, ours = mlp(), mlp()
    steps, our_steps = (OPTIMIZERS[name](m.parameters()) for m in (hand, ours))
    ticks, our_ticks = (SCHEDULES[schedule](optimizer) for optimizer in (steps, our_steps))
    update = truestep.Update(ours, our_steps, loss=cross_entropy, scheduler=our_ticks)
    for seed in range(4):
        rate = float(steps.param_groups[0]["lr"])
        skipped = update([poisoned(batch(4))])
        outcome = update([batch(4, seed), batch(2, seed + 9)])
        assert skipped.lr == outcome.lr == (rate,)
        assert type(outcome.lr[0]) is float
        by_hand(hand, steps, [batch(4, seed), batch(2, seed + 9)])
        if ticks is not None:
            ticks.step()
        assert same(weights(hand), weights(ours))
        assert isinstance(our_steps.param_groups[0]["lr"], torch.Tensor)
    assert float(our_steps.param_groups[0]["lr"]) == float(steps.param_groups[0]["lr"])


def test_a_scheduler_may_be_the_class_that_makes_it_of_the_optimizer() -> None:
    model = mlp()
    update = truestep.Update(
        model, torch.optim.SGD(model.parameters(), lr=1.0), loss=cross_entropy, scheduler=torch.optim.lr_scheduler.LinearLR
    )
    assert update([batch(4)]).lr[0] == pytest.approx(1 / 3)  # LinearLR's own start_factor
    assert update.schedulers[0].last_epoch == 1
