"""What is asked for in words that mean nothing is refused before anything happens."""

from __future__ import annotations

import gc
import itertools
import math

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, same, weights
from truestep.errors import ClockError, LossError, PolicyError, StateError, UsageError, WeightError


def build(**options: object) -> truestep.Update:
    model = mlp()
    return truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), **({"loss": cross_entropy} | options))


@pytest.mark.parametrize(
    "options",
    [{"loss_is": "average"}, {"incurable": "back-off"}, {"max_consecutive_skips": 0}, {"max_consecutive_skips": -1}],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        build(**options)


def test_a_scale_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(PolicyError, match="dynmic"):
        truestep.LossScale(kind="dynmic", value=1.0)


@pytest.mark.parametrize("total", [-1, math.inf, math.nan, "six"])
def test_a_total_that_is_no_weight_is_refused(total: object) -> None:
    with pytest.raises(WeightError, match="weight is"):
        build().attempt(total=total)


def test_a_total_of_zero_belongs_to_a_window_without_weight() -> None:
    update = build()
    with update.attempt(total=0) as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(2)), 0)
    assert attempt.outcome.skip.reason is truestep.Reason.WEIGHT
    with pytest.raises(WeightError, match="add up to 2"), update.attempt(total=0) as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(2)), 2)


@pytest.mark.parametrize("order", set(itertools.permutations(["share", 2, 2])))
def test_shares_and_relative_weights_do_not_mix_in_any_order(order: tuple[object, ...]) -> None:
    update = build()
    before = weights(update.plan.model)
    with pytest.raises(WeightError, match="mixes shares"), update.attempt() as attempt:
        for term in order:
            loss = cross_entropy(update.plan.model, batch(2))
            attempt.backward(loss, share=1.0) if term == "share" else attempt.backward(loss, term)
    assert same(before, weights(update.plan.model))


def test_shares_alone_have_no_weight_whatever_total_is_declared() -> None:
    update = build()
    with update.attempt(total=6) as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(2)), share=1.0)
    assert attempt.outcome.weight is None


@pytest.mark.parametrize("clock", [truestep.Every(examples=4), truestep.Every(tokens=4)])
def test_a_clock_of_counts_asks_for_them(clock: truestep.Every) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    update = truestep.Update(model, optimizer, loss=cross_entropy, scheduler=scheduler, clock=clock, tokens=lambda data: 4)
    before = weights(model)
    with pytest.raises(ClockError, match=clock.counts), update.attempt(total=4) as attempt:
        attempt.backward(cross_entropy(model, batch(4)), 4)
    assert same(before, weights(model))
    with update.attempt(total=4) as attempt:
        attempt.backward(cross_entropy(model, batch(4)), 4, microbatch=batch(4))
    assert attempt.outcome.counts.ticks == 1


def test_a_policy_of_ones_own_is_taken_for_what_it_is() -> None:
    own = truestep.Policy(name="mine", compute=torch.bfloat16, scale=truestep.LossScale.static(8.0))
    assert build(policy=own)([batch(2)]).policy == "mine"
    with pytest.raises(PolicyError, match="mine"):
        build(policy=truestep.Policy(name="mine", compute=torch.float32, matmul="high", scale=truestep.LossScale.none()))


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda model, data: (model(data[0]) * (1 + 1j)).sum(), "complex64"),
        (lambda model, data: torch.tensor(3), "int64"),
    ],
)
def test_a_loss_that_is_no_real_number_is_refused(loss: object, says: str) -> None:
    with pytest.raises(LossError, match=says):
        build(loss=loss)([batch(2)])


def test_an_update_that_is_gone_leaves_no_hook_on_its_optimizer() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        truestep.Update(model, optimizer, loss=cross_entropy)
    gc.collect()
    assert not optimizer._optimizer_step_pre_hooks


def test_an_attempt_inside_an_attempt_is_refused_and_the_outer_one_undone() -> None:
    update = build()

    def nested(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        update([data])
        return cross_entropy(model, data)

    update = build(loss=nested)
    with pytest.raises(StateError, match="open already"):
        update([batch(2)])
    assert update.counts.attempts == 0
