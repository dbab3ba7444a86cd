"""Law 9: several optimizers in one update step together or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import OPTIMIZERS, batch, cross_entropy, mlp, poisoned, same, split, weights
from truestep.errors import ClockError, OptimizerError, StateError

PAIRS = [("adamw", "momentum"), ("fused adamw", "momentum"), ("fused adamw", "fused momentum"), ("sgd", "fused adagrad")]


def pair(model: nn.Module, names: tuple[str, str]) -> list[torch.optim.Optimizer]:
    """One optimizer for each layer."""
    return [OPTIMIZERS[name](layer.parameters()) for name, layer in zip(names, (model[0], model[2]), strict=True)]


def state(update: truestep.Update[Any]) -> list[Tensor]:
    held = [
        value.detach().clone()
        for optimizer in update.optimizers
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, Tensor)
    ]
    return weights(update.model) + held


@pytest.mark.parametrize("names", PAIRS)
@pytest.mark.parametrize("policy", ["fp32", "fp16"])
def test_two_optimizers_are_bit_equal_to_a_hand_written_loop(names: tuple[str, str], policy: str) -> None:
    ours, theirs = mlp(), mlp()
    update = truestep.Update(ours, pair(ours, names), loss=cross_entropy, policy=policy)
    by_hand = pair(theirs, names)
    dtype = {"fp32": None, "fp16": torch.float16}[policy]
    for seed in range(3):
        assert update([batch(4, seed)]).completed
        theirs.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = cross_entropy(theirs, batch(4, seed))
        (loss.float() * update.scale.value).backward()
        for p in theirs.parameters():
            p.grad /= update.scale.value
        for optimizer in by_hand:
            optimizer.step()
    assert same(weights(ours), weights(theirs))


@pytest.mark.parametrize("names", PAIRS)
@pytest.mark.parametrize("place", [0, 2])
def test_neither_steps_where_the_gradient_of_one_is_not_finite(names: tuple[str, str], place: int) -> None:
    model = mlp()
    update = truestep.Update(model, pair(model, names), loss=cross_entropy)
    update([batch(4)])
    before = state(update)
    hook = model[place].bias.register_hook(lambda gradient: gradient * float("inf"))
    outcome = update([batch(4)])
    hook.remove()
    assert outcome.skip is not None
    assert same(before, state(update))
    assert update([batch(4)]).completed


def test_a_norm_and_a_clip_are_those_of_all_parameters_together() -> None:
    model, one = mlp(), mlp()
    joint = truestep.Update(model, pair(model, ("sgd", "sgd")), loss=cross_entropy, clip=truestep.ClipNorm(0.1))
    single = truestep.Update(one, OPTIMIZERS["sgd"](one.parameters()), loss=cross_entropy, clip=truestep.ClipNorm(0.1))
    window = split(batch(8), [3, 5])
    assert joint(window).grad_norm == single(window).grad_norm
    assert same(weights(model), weights(one))


def decay(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)


@pytest.mark.parametrize("built", [lambda found: [decay(each) for each in found], lambda found: decay(found[1])])
def test_every_schedule_moves_on_the_one_clock(built: Callable[[Any], Any]) -> None:
    model = mlp()
    optimizers = pair(model, ("adamw", "momentum"))
    update = truestep.Update(model, optimizers, loss=cross_entropy, scheduler=built)
    update([batch(4)])
    update([poisoned(batch(4))])
    outcome = update([batch(4)])
    moves = [0.5**1 if any(each.optimizer is optimizer for each in update.schedulers) else 1.0 for optimizer in optimizers]
    assert outcome.lr == (0.01 * moves[0], 0.1 * moves[1])
    assert outcome.counts.ticks == 2
    update.schedulers[-1].step()
    with pytest.raises(ClockError, match="somebody else moves it"):
        update([batch(4)])


def test_a_function_may_build_the_optimizers_and_the_schedule() -> None:
    model = mlp()
    update = truestep.Update(
        model,
        lambda params: [
            torch.optim.Muon([p for p in params if p.ndim == 2]),
            torch.optim.AdamW([p for p in params if p.ndim < 2]),
        ],
        loss=cross_entropy,
        scheduler=lambda optimizers: [decay(each) for each in optimizers],
        policy="bf16-master",
    )
    assert [type(each).__name__ for each in update.optimizers] == ["Muon", "AdamW"]
    assert update([batch(4)]).completed
    assert all(each.last_epoch == 1 for each in update.schedulers)


def test_what_cannot_be_several_is_refused() -> None:
    model = mlp()
    first, second = pair(model, ("sgd", "sgd"))
    with pytest.raises(OptimizerError, match="stepped twice"):
        truestep.Update(model, [first, first], loss=cross_entropy)
    with pytest.raises(ClockError, match="another optimizer"):
        truestep.Update(model, [first], loss=cross_entropy, scheduler=decay(second))


class Failing(torch.optim.SGD):
    """Steps, and then fails where it is told to."""

    fails = True

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        if self.fails:
            raise ArithmeticError("late")


def failing_pair(policy: str) -> truestep.Update[Any]:
    def build(params: list[nn.Parameter]) -> list[torch.optim.Optimizer]:
        return [torch.optim.AdamW(params[:2], lr=0.01), Failing(params[2:], lr=0.1, momentum=0.9)]

    return truestep.Update(mlp(), build, loss=cross_entropy, policy=policy)


@pytest.mark.parametrize("policy", ["fp32", "bf16-master", "bf16-pure"])
def test_where_the_second_fails_at_its_first_step_neither_has_stepped(policy: str) -> None:
    update = failing_pair(policy)
    before = state(update)
    with pytest.raises(ArithmeticError):
        update([batch(4)])
    assert same(before, state(update))
    assert (update.counts.attempts, update.optimizers[0].state, update.optimizers[1].state) == (0, {}, {})
    assert all(p.grad is None for p in update.model.parameters())
    update.optimizers[1].fails = False  # type: ignore[attr-defined]
    assert update([batch(4)]).completed


@pytest.mark.parametrize("policy", ["fp32", "bf16-master", "bf16-pure"])
def test_where_one_fails_at_a_later_step_the_update_refuses_to_go_on_until_a_state_is_loaded(policy: str) -> None:
    update = failing_pair(policy)
    update.optimizers[1].fails = False  # type: ignore[attr-defined]
    update([batch(4)])
    with update.in_float32():
        saved = [{name: value.clone() for name, value in update.model.state_dict().items()}]
    saved += [update.state_dict()]
    update.optimizers[1].fails = True  # type: ignore[attr-defined]
    with pytest.raises(ArithmeticError):
        update([batch(4)])
    with pytest.raises(StateError, match=r"ended a step halfway.*ArithmeticError: late"):
        update([batch(4)])
    update.optimizers[1].fails = False  # type: ignore[attr-defined]
    with update.in_float32():
        update.model.load_state_dict(saved[0])
    update.load_state_dict(saved[1])
    assert update([batch(4)]).completed
    assert update.counts.attempts == 2
