"""What is asked for in words that mean nothing is refused before anything happens."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import itertools
import math
import pickle
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, same, weights
from truestep.errors import ClockError, LossError, PolicyError, StateError, UsageError, WeightError, WindowError


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


class Checkpointed(nn.Module):
    """Its first layers are computed again in backward, as large models do to save memory."""

    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk, self.head, self.reentrant = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 3), reentrant

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.trunk, x.clone().requires_grad_(), use_reentrant=self.reentrant))


def test_a_reentrant_checkpoint_is_refused_by_name_and_the_other_kind_trains() -> None:
    for reentrant in (True, False):
        model = Checkpointed(reentrant=reentrant)
        update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
        before = weights(model)
        if reentrant:
            with pytest.raises(LossError, match="use_reentrant=False"):
                update([batch(4)])
            assert same(before, weights(model))
        else:
            assert update([batch(4)]).completed
            assert not same(before[:1], weights(model)[:1])


def test_a_parameter_that_is_frozen_later_stays_where_it_is() -> None:
    update = build()
    update([batch(4)])
    frozen = update.plan.model[0].weight.requires_grad_(False)
    before = frozen.detach().clone()
    update([batch(4)])
    assert same([before], [frozen])


def test_weights_that_change_their_format_later_are_refused() -> None:
    update = build()
    update([batch(4)])
    update.plan.model.double()
    with pytest.raises(PolicyError, match="float64"):
        update([(batch(4)[0].double(), batch(4)[1])])


def test_a_backward_that_failed_inside_a_block_undoes_the_attempt() -> None:
    update = build()
    before = weights(update.plan.model)
    with pytest.raises(StateError, match="went on without it"), update.attempt() as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(4)), 4)
        with contextlib.suppress(LossError):
            attempt.backward(cross_entropy(update.plan.model, batch(4)).detach(), 4)
    assert same(before, weights(update.plan.model))
    assert update.counts.attempts == 0


@pytest.mark.parametrize("given", [{"weight": 4, "share": 1.0}, {"share": math.nan}])
def test_a_share_is_one_finite_number_and_no_weight(given: dict[str, float]) -> None:
    update = build()
    with pytest.raises(WeightError, match="share"), update.attempt() as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(4)), **given)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"clip": 1.0}, "ClipError"),
        ({"clip": 0.0}, "ClipError"),
        ({"scale": 1024.0}, "PolicyError"),
        ({"loss": None}, "UsageError"),
        ({"weight": 3}, "UsageError"),
        ({"scheduler": 3}, "ClockError"),
    ],
)
def test_what_cannot_be_used_is_refused_when_the_update_is_built(options: dict[str, object], error: str) -> None:
    with pytest.raises(UsageError) as caught:
        build(**options)
    assert type(caught.value).__name__ == error
    assert caught.value.hint


@pytest.mark.parametrize("count", [-4, 2.5, "many", math.nan])
def test_a_number_of_examples_is_a_number_of_examples(count: object) -> None:
    with pytest.raises(WindowError, match="whole and at least 0"):
        build(examples=lambda data: count, weight=lambda data: 4)([batch(4)])


def test_a_schedule_that_somebody_else_moves_too_is_refused() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    update = truestep.Update(model, optimizer, loss=cross_entropy, scheduler=scheduler)
    update([batch(4)])
    scheduler.step()
    with pytest.raises(ClockError, match="left at 1 and stands at 2"):
        update([batch(4)])


def test_a_schedule_that_fails_leaves_the_counts_of_what_was_applied() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=2)
    update = truestep.Update(model, optimizer, loss=cross_entropy, scheduler=scheduler)
    update([batch(4)])
    with pytest.raises(ValueError, match="total"):
        [update([batch(4)]) for _ in range(3)]
    assert update.counts.completed == update.counts.ticks + 1


def test_a_window_that_cannot_be_run_again_is_skipped_all_the_same() -> None:
    def popping(model: nn.Module, data: dict[str, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(model(data["x"]), data.pop("y")) * math.nan

    outcome = build(loss=popping, check_weight=False)([{"x": batch(4)[0], "y": batch(4)[1]}])
    assert outcome.skip.reason is truestep.Reason.LOSS
    assert "could not be run again: KeyError" in outcome.skip.detail


def test_a_diagnosis_draws_from_no_global_generator() -> None:
    def drawing(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        random.random()
        np.random.rand()
        return cross_entropy(model, data) * math.nan

    random.seed(0)
    np.random.seed(0)
    build(loss=drawing, check_weight=False)([batch(4)])
    after = random.random(), np.random.rand()
    random.seed(0)
    np.random.seed(0)
    random.random()
    np.random.rand()
    assert after == (random.random(), np.random.rand())


@pytest.mark.parametrize("way", [lambda o: pickle.loads(pickle.dumps(o)), copy.deepcopy, lambda o: o])
def test_an_outcome_survives_a_process_boundary(way: object) -> None:
    outcome = build()([batch(4)])
    assert way(outcome) == outcome
    assert dataclasses.asdict(outcome)["counts"]["completed"] == 1


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")  # deprecated, and still what people have
def test_a_traced_model_is_refused_by_name() -> None:
    model = nn.Sequential(torch.jit.trace(nn.Linear(4, 3), batch(4)[0]))
    with pytest.raises(UsageError, match="TorchScript"):
        truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    with pytest.raises(UsageError, match="Module"):
        truestep.Update(None, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)


def test_a_backward_that_failed_is_not_made_up_for_by_the_next_one() -> None:
    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    before = weights(model)
    with pytest.raises(StateError, match="failed, and the block went on"), update.attempt() as attempt:
        with contextlib.suppress(LossError):
            attempt.backward(model(batch(4)[0]), 4)
        attempt.backward(cross_entropy(model, batch(4)), 4)
    assert same(before, weights(model))
    assert update.counts.attempts == 0
