"""LBFGS, whose step evaluates the loss again: the window's loss and gradient at each point, bit for bit as by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import truestep
from tests.engine.loops import Batch, batch, cross_entropy, everything, mlp, poisoned, same, weights
from truestep.errors import GradientError, OptimizerError

SEARCHES = [None, "strong_wolfe"]
DTYPES = {"fp32": None, "bf16": torch.bfloat16}


def lbfgs(model: nn.Module, search: str | None = "strong_wolfe", **options: Any) -> torch.optim.Optimizer:
    return torch.optim.LBFGS(model.parameters(), **{"lr": 0.5, "max_iter": 5, "line_search_fn": search} | options)


def hand_step(model: nn.Module, optimizer: Any, window: list[Batch], dtype: torch.dtype | None = None) -> int:
    """torch's own way with a closure, over the microbatches of a window; every evaluation draws the same numbers."""
    total, state, evaluations = sum(len(data[0]) for data in window), torch.get_rng_state(), 0

    def closure() -> Tensor:
        nonlocal evaluations
        evaluations += 1
        torch.set_rng_state(state)
        optimizer.zero_grad()
        loss = 0.0
        for data in window:
            share = len(data[0]) / total
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                value = cross_entropy(model, data)
            (value.float() * share).backward()
            loss += share * value.item()
        return torch.tensor(loss)

    optimizer.step(closure)
    return evaluations


def windows() -> list[list[Batch]]:
    return [[batch(5, seed), batch(2, seed + 9), batch(3, seed + 20)] for seed in range(3)]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("policy", DTYPES)
def test_lbfgs_steps_bit_for_bit_as_by_hand_over_a_window_of_microbatches(policy: str, search: str | None) -> None:
    hand, ours = mlp(), mlp()
    steps, our_steps = lbfgs(hand, search), lbfgs(ours, search)
    update = truestep.Update(ours, our_steps, loss=cross_entropy, policy=policy)
    for window in windows():
        before = everything(update)
        assert not update([window[0], poisoned(window[1])]).completed
        assert same(before, everything(update))
        assert update(window).completed
        assert hand_step(hand, steps, window, DTYPES[policy]) > 1
        assert same(weights(hand), weights(ours))
    assert update.counts.completed == 3


@pytest.mark.parametrize("scale", [8.0, 65536.0])
def test_lbfgs_at_a_static_power_of_two_steps_the_same(scale: float) -> None:
    plain, scaled = mlp(), mlp()
    updates = [
        truestep.Update(plain, lbfgs(plain), loss=cross_entropy),
        truestep.Update(scaled, lbfgs(scaled), loss=cross_entropy, scale=truestep.LossScale.static(scale)),
    ]
    for window in windows():
        assert all(update(window).completed for update in updates)
    assert same(weights(plain), weights(scaled))


def random_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 3))


def test_every_evaluation_of_a_step_draws_the_numbers_that_the_attempt_drew() -> None:
    """A line search over a loss that is drawn anew at each point would compare different functions."""
    hand, ours = random_model(), random_model()
    steps, update = lbfgs(hand), truestep.Update(ours, lbfgs(ours), loss=cross_entropy)
    torch.manual_seed(1)
    for window in windows():
        hand_step(hand, steps, window)
    after = torch.rand(2)
    torch.manual_seed(1)
    assert all(update(window).completed for window in windows())
    assert torch.equal(after, torch.rand(2))
    assert same(weights(hand), weights(ours))


def test_evaluations_do_not_repeat_the_draws_of_python_but_do_not_move_its_generator() -> None:
    drawn: list[float] = []

    def loss(model: nn.Module, data: Batch) -> Tensor:
        drawn.append(random.random())
        return cross_entropy(model, data)

    random.seed(0)
    model = mlp()
    assert truestep.Update(model, lbfgs(model), loss=loss)([batch(4)]).completed
    after = random.random()
    random.seed(0)
    assert (drawn[0], after) == (random.random(), random.random())
    assert len(drawn) > 2
    assert len(set(drawn)) == len(drawn)


def test_statistics_move_once_for_each_attempt_however_often_it_is_evaluated() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))
    update = truestep.Update(model, lbfgs(model), loss=cross_entropy)
    assert update(windows()[0]).completed
    assert model[1].num_batches_tracked == 3


def test_lbfgs_finds_the_least_squares_solution_from_microbatches() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(24, 3, generator=generator), torch.randn(24, 1, generator=generator)
    model = nn.Linear(3, 1)
    update = truestep.Update(model, lbfgs(model, lr=1.0, max_iter=20), loss=lambda m, d: F.mse_loss(m(d[0]), d[1]))
    for _ in range(3):
        outcome = update(list(zip(x.split([10, 5, 9]), y.split([10, 5, 9]), strict=True)))
    a = torch.cat([x, torch.ones(24, 1)], 1).double()
    exact = torch.linalg.lstsq(a, y.double()).solution.flatten()
    found = torch.cat([model.weight[0], model.bias]).detach().double()
    # LBFGS ends where no element of the gradient, 2 A'(A w - y) / 24, is above 1e-7, or where a step moves less than 1e-9:
    # in float32 neither is sharper than its roundings, about 24 of them in a sum of residuals of size 1.
    reached = 1e-7 + 2 * (24 + 8) * 2.0**-24 * float(a.abs().max())
    smallest = float(torch.linalg.eigvalsh(2 * a.T @ a / 24).min())
    assert float((found - exact).norm()) <= 2.0 * reached / smallest
    assert outcome.completed


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"policy": "fp16"}, "dynamic loss scale"),
        ({"clip": truestep.ClipNorm(1.0)}, "clipping"),
        ({"scale": truestep.LossScale.dynamic(8.0)}, "dynamic loss scale"),
    ],
)
def test_what_a_search_cannot_be_had_with_is_refused_by_name(options: dict[str, Any], says: str) -> None:
    model = mlp()
    with pytest.raises(OptimizerError, match=rf"LBFGS .*{says}"):
        truestep.Update(model, lbfgs(model), loss=cross_entropy, **options)


def test_lbfgs_beside_another_optimizer_is_refused() -> None:
    model = mlp()
    pair = [torch.optim.LBFGS(model[0].parameters()), torch.optim.SGD(model[2].parameters(), lr=0.1)]
    with pytest.raises(OptimizerError, match=r"LBFGS .*beside other optimizers"):
        truestep.Update(model, pair, loss=cross_entropy)


def test_a_block_whose_loss_cannot_be_evaluated_again_is_refused_by_name() -> None:
    model = mlp()
    update = truestep.Update(model, lbfgs(model), loss=cross_entropy)
    before = everything(update)
    with pytest.raises(OptimizerError, match="evaluates the loss again"), update.attempt() as attempt:
        attempt.backward(cross_entropy(model, batch(4)), 4)
    assert same(before, everything(update))
    assert update(windows()[0]).completed


@pytest.mark.parametrize("completed_before", [0, 1])
def test_a_search_that_leaves_the_finite_numbers_is_undone(completed_before: int) -> None:
    def walled(model: nn.Module, data: Batch) -> Tensor:
        """Infinite where the weights are far away."""
        return cross_entropy(model, data) + (model[2].bias * 1e-10).pow(8).sum()

    model = mlp()
    optimizer = lbfgs(model, None)
    update = truestep.Update(model, optimizer, loss=walled)
    for _ in range(completed_before):
        assert update(windows()[0]).completed
    optimizer.param_groups[0]["lr"] = 1e20
    before, counts = everything(update), update.counts
    with pytest.raises(GradientError, match="evaluation"):
        update(windows()[1])
    assert same(before, everything(update))
    assert update.counts == counts
    optimizer.param_groups[0]["lr"] = 0.5
    assert update(windows()[1]).completed


def failing_at(number: int) -> Callable[[nn.Module, Batch], Tensor]:
    calls = 0

    def loss(model: nn.Module, data: Batch) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == number:
            raise KeyboardInterrupt
        return cross_entropy(model, data)

    return loss


@pytest.mark.parametrize("number", [2, 5, 9])
def test_an_interruption_in_the_middle_of_a_search_leaves_everything_as_it_was(number: int) -> None:
    model = mlp()
    update = truestep.Update(model, lbfgs(model), loss=failing_at(number))
    before = everything(update)
    with pytest.raises(KeyboardInterrupt):
        update(windows()[0])
    assert same(before, everything(update))
    assert all(p.grad is None for p in model.parameters())
    assert update(windows()[0]).completed
