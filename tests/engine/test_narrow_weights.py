"""Narrow weights: float32 masters beside them, or stochastic rounding in place of masters."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import OPTIMIZERS, Batch, batch, cross_entropy, mlp, poisoned, same, split, weights
from truestep.engine.pure import Pure
from truestep.errors import PolicyError, StateError

NARROW = {"bf16-master": torch.bfloat16, "fp16-master": torch.float16, "bf16-pure": torch.bfloat16}
MASTER = ["bf16-master", "fp16-master"]


def build(policy: str, model: nn.Module | None = None, optimizer: str = "adamw", **settings: Any) -> truestep.Update[Batch]:
    model = mlp() if model is None else model
    return truestep.Update(model, OPTIMIZERS[optimizer], loss=cross_entropy, policy=policy, **settings)


def state(update: truestep.Update[Any]) -> list[Tensor]:
    """Everything that an update moves: weights as stored and in float32, and the optimizer's state."""
    held = [value for state in update.optimizers[0].state.values() for value in state.values() if isinstance(value, Tensor)]
    return [*weights(update.model), *(w.clone() for w in update.weights().values()), *(value.clone() for value in held)]


def normed() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


# what is kept in which format


@pytest.mark.parametrize(("policy", "dtype"), [("fp32", torch.float32), ("bf16", torch.float32), *NARROW.items()])
def test_lesson_c4_weights_and_their_gradients_are_in_the_policys_format(policy: str, dtype: torch.dtype) -> None:
    update = build(policy)
    with update.attempt() as attempt:
        with attempt.autocast():
            loss = cross_entropy(update.model, batch(4))
        attempt.backward(loss, 4)
        assert {(p.dtype, p.grad.dtype) for p in update.model.parameters()} == {(dtype, dtype)}
    moments = [value for held in update.optimizers[0].state.values() for value in held.values() if value.dim()]
    assert {moment.dtype for moment in moments} == {torch.bfloat16 if policy == "bf16-pure" else torch.float32}
    assert {w.dtype for w in update.weights().values()} == {torch.float32}


@pytest.mark.parametrize("policy", NARROW)
def test_normalization_layers_keep_float32_parameters(policy: str) -> None:
    update = build(policy, normed())
    assert update([batch(4), batch(4)]).completed
    kept = {name for name, p in update.model.named_parameters() if p.dtype is torch.float32}
    assert kept == {"1.weight", "1.bias", "4.weight", "4.bias"}


# the arithmetic


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("policy", MASTER)
def test_masters_are_bit_equal_to_a_hand_written_loop(policy: str, optimizer: str) -> None:
    ours, dtype = build(policy, optimizer=optimizer), NARROW[policy]
    theirs = mlp()
    masters = [nn.Parameter(p.detach().clone()) for p in theirs.parameters()]
    theirs.to(dtype)
    stepping = OPTIMIZERS[optimizer](masters)
    for seed in range(5):
        ours([batch(4, seed)])
        theirs.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = cross_entropy(theirs, batch(4, seed))
        scale = 2.0**16 if policy == "fp16-master" else 1.0
        (loss.float() * scale).backward()
        for master, p in zip(masters, theirs.parameters(), strict=True):
            master.grad = p.grad.float() / scale
        stepping.step()
        for master, p in zip(masters, theirs.parameters(), strict=True):
            p.data.copy_(master.data)
    assert same(weights(ours.model), weights(theirs))
    assert same(list(ours.weights().values()), [master.detach() for master in masters])


@pytest.mark.parametrize("policy", NARROW)
def test_512_equal_contributions_add_up_to_512_and_not_to_256(policy: str) -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    update = truestep.Update(
        model,
        lambda params: torch.optim.SGD(params, lr=1.0),
        loss=lambda model, x: -model(x).sum(),
        loss_is="share",
        policy=policy,
        scale=truestep.LossScale.static(1.0),
    )
    outcome = update([torch.ones(1, 1)] * 512)
    assert outcome.grad_norm == 512.0
    assert model.weight.item() == 512.0


@pytest.mark.parametrize("policy", NARROW)
def test_a_split_window_has_the_gradient_of_the_whole_within_the_formats_rounding(policy: str) -> None:
    whole, parts = build(policy, optimizer="sgd"), build(policy, optimizer="sgd")
    data = batch(12)
    one, several = whole([data]), parts(split(data, [2, 3, 7]))
    assert one.grad_norm is not None
    assert several.grad_norm is not None
    # Activations, the gradients on them and the stored gradient are rounded, by eps/2 relative each, in each of at most 3 layers.
    eps = torch.finfo(NARROW[policy]).eps
    assert abs(one.grad_norm - several.grad_norm) <= 2 * 9 * eps * one.grad_norm


def plain_bf16(lr: float, steps: int, target: float) -> Tensor:
    """SGD in bfloat16 as torch does it: every update rounded to nearest."""
    weight = nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([weight], lr=lr)
    for _ in range(steps):
        weight.grad = torch.full_like(weight, target)
        optimizer.step()
    return weight.detach().float()


def azuma(steps: int, elements: int, ulp: float, *, failure: float = 1e-9) -> float:
    """How far the mean of `elements` sums of `steps` independent errors of mean 0 within one ulp lies from 0, but for `failure`.

    Hoeffding and Azuma: P(|mean| >= t) <= 2 exp(-elements t^2 / (2 steps ulp^2)).
    """
    return ulp * math.sqrt(2 * steps * math.log(2 / failure) / elements)


class Slope(nn.Module):
    """A loss whose gradient is the same number at every element, whatever the weights."""

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(elements))

    def forward(self, slope: Tensor) -> Tensor:
        return (self.weight.float() * slope).sum()


def slopes(update_by: Any, elements: int, policy: str = "bf16-pure") -> truestep.Update[Tensor]:
    return truestep.Update(Slope(elements), update_by, loss=lambda model, x: model(x), loss_is="share", policy=policy)


def test_updates_below_half_an_ulp_are_lost_to_nearest_and_right_in_the_mean_stochastically() -> None:
    # Between 1 and 2 bfloat16 has an ulp of 2^-7, and an update of 2^-10 is an eighth of it.
    steps, elements, moved = 64, 20_000, 2.0**-10
    assert plain_bf16(moved, steps, -1.0).unique().tolist() == [1.0]
    update = slopes(lambda params: torch.optim.SGD(params, lr=moved), elements)
    for _ in range(steps):
        assert update([torch.tensor([-1.0])]).completed
    got = update.weights()["weight"]
    assert abs(got.mean().item() - (1 + steps * moved)) <= azuma(steps, elements, 2.0**-7)
    assert azuma(steps, elements, 2.0**-7) < steps * moved / 10  # the bound tells it from standing still


def test_a_second_moment_sticks_when_rounded_to_nearest_and_is_right_in_the_mean_stochastically() -> None:
    # v = 1 with gradients of 1/2 should fall towards 1/4 by 0.001 * 3/4 a step: below half an ulp of 2^-8 under 1.
    steps, elements = 300, 5_000
    weight = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    plain = torch.optim.Adam([weight], lr=0.0)
    weight.grad = torch.full_like(weight, 0.5)
    plain.step()
    plain.state[weight]["exp_avg_sq"].fill_(1.0)
    for _ in range(steps):
        plain.step()
    assert plain.state[weight]["exp_avg_sq"].float().unique().tolist() == [1.0]

    update = slopes(lambda params: torch.optim.Adam(params, lr=0.0), elements)
    update([torch.tensor([0.5])])
    moments = update.optimizers[0].state[update.model.weight]
    moments["exp_avg_sq"].fill_(1.0)
    for _ in range(steps):
        update([torch.tensor([0.5])])
    found = moments["exp_avg_sq"].float().mean().item()
    wanted = 0.25 + 0.75 * 0.999**steps
    assert moments["exp_avg_sq"].dtype is torch.bfloat16
    assert abs(found - wanted) <= azuma(steps, elements, 2.0**-8)
    assert azuma(steps, elements, 2.0**-8) < (1 - wanted) / 10


def test_portions_of_a_step_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = build("bf16-pure"), build("bf16-pure")
    for seed in range(3):
        whole([batch(4, seed)])
        with monkeypatch.context() as patch:
            patch.setattr(Pure, "PORTION", 9)
            parts([batch(4, seed)])
    assert same(state(whole), state(parts))


def test_the_draws_follow_the_seed_and_nothing_else() -> None:
    pure = truestep.Policy.named("bf16-pure")
    runs = []
    for seed, disturbs in ((0, False), (0, True), (1, False)):
        torch.manual_seed(5)
        model = mlp()
        update = truestep.Update(model, OPTIMIZERS["adamw"], loss=cross_entropy, policy=replace(pure, seed=seed))
        for place in range(3):
            torch.manual_seed(disturbs * place)
            update([batch(4, place)])
        runs.append(weights(model))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


# skips, exceptions, resume


@pytest.mark.parametrize("policy", NARROW)
def test_a_skip_and_an_exception_leave_weights_masters_and_moments(policy: str) -> None:
    update = build(policy)
    update([batch(4)])
    before = state(update)
    assert not update([batch(4), poisoned(batch(4))]).completed
    with pytest.raises(ZeroDivisionError), update.attempt() as attempt:
        with attempt.autocast():
            loss = cross_entropy(update.model, batch(4))
        attempt.backward(loss, 4)
        1 / 0  # noqa: B018
    assert same(before, state(update))
    assert all(p.grad is None for p in update.model.parameters())
    assert update([batch(4)]).completed


@pytest.mark.parametrize("policy", NARROW)
def test_an_overflow_in_float16_weights_is_skipped_for_its_reason(policy: str) -> None:
    update = build(policy, scale=truestep.LossScale.dynamic(init=2.0**100))
    outcome = update([batch(4)])
    if policy == "fp16-master":  # 2^100 overflows float16's gradients, and not bfloat16's
        assert outcome.skip is not None
        assert (outcome.skip.reason, outcome.skip.curable) == (truestep.Reason.BACKWARD, True)
        assert outcome.next_loss_scale == 2.0**99
    else:
        assert outcome.completed


@pytest.mark.parametrize("policy", NARROW)
@pytest.mark.parametrize("cut", [1, 4])
def test_a_run_goes_on_bit_for_bit_from_float32_states(policy: str, cut: int, tmp_path: Any) -> None:
    straight, first, second = (build(policy, normed()) for _ in range(3))
    for seed in range(8):
        straight([batch(4, seed), batch(2, seed + 100)])
    for seed in range(cut):
        first([batch(4, seed), batch(2, seed + 100)])
    with first.in_float32():
        saved = {"model": first.model.state_dict(), "optimizer": first.optimizers[0].state_dict(), "update": first.state_dict()}
        torch.save(saved, tmp_path / "checkpoint")
    loaded = torch.load(tmp_path / "checkpoint", weights_only=True)
    with second.in_float32():
        second.model.load_state_dict(loaded["model"])
    second.optimizers[0].load_state_dict(loaded["optimizer"])
    second.load_state_dict(loaded["update"])
    for seed in range(cut, 8):
        second([batch(4, seed), batch(2, seed + 100)])
    assert same(state(straight), state(second))
    assert second.counts == straight.counts


# the float32 weights in the model's place


@pytest.mark.parametrize("policy", NARROW)
def test_in_float32_the_model_computes_in_float32_and_returns_as_it_was(policy: str) -> None:
    update = build(policy, normed())
    update([batch(4)])
    before = state(update)
    with update.in_float32():
        assert {p.dtype for p in update.model.parameters()} == {torch.float32}
        assert all(torch.equal(p, update.weights()[name]) for name, p in update.model.named_parameters())
        with torch.no_grad():
            assert cross_entropy(update.model.eval(), batch(4)).dtype is torch.float32
    assert same(before, state(update))
    assert update([batch(4)]).completed


@pytest.mark.parametrize("policy", MASTER)
def test_weights_that_were_written_behind_the_masters_are_refused_by_name(policy: str) -> None:
    update, other = build(policy), build(policy, mlp(seed=9))
    update([batch(4)])
    update.model.load_state_dict(update.model.state_dict())  # written, and the same
    assert update([batch(4)]).completed
    update.model.load_state_dict(other.model.state_dict())
    with pytest.raises(StateError, match=r"'0\.weight' were written"):
        update([batch(4)])
    with pytest.raises(StateError, match=r"'0\.weight' were written"), update.in_float32():
        pass
    assert same(weights(update.model), weights(other.model))
    update.take_weights()
    assert same(list(update.weights().values()), [w.float() for w in weights(other.model)])
    with update.in_float32(), other.in_float32():
        update.model.load_state_dict(other.model.state_dict())
    assert same(list(update.weights().values()), list(other.weights().values()))
    assert same(weights(update.model), weights(other.model))
    assert update([batch(4)]).completed


@pytest.mark.parametrize("policy", MASTER)
def test_a_write_that_moves_no_version_is_found_within_as_many_attempts_as_there_are_parameters(policy: str) -> None:
    update = build(policy)
    for p in update.model.parameters():
        p.data.mul_(0.5)
    before = update.counts
    with pytest.raises(StateError, match="were written"):
        for _ in update.model.parameters():
            update([batch(4)])
    assert update.counts.attempts < before.attempts + 4


def test_the_float32_weights_stay_out_of_an_open_attempt() -> None:
    update = build("bf16-master")
    with pytest.raises(StateError, match="open already"), update.attempt(), update.in_float32():
        pass


# refusals


@pytest.mark.parametrize("policy", NARROW)
def test_an_optimizer_of_the_models_own_parameters_is_refused(policy: str) -> None:
    model = mlp()
    with pytest.raises(PolicyError, match="builds its optimizer") as caught:
        truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy, policy=policy)
    assert "lambda params" in caught.value.hint
    assert {p.dtype for p in model.parameters()} == {torch.float32}  # nothing has been narrowed


@pytest.mark.parametrize("policy", MASTER)
def test_an_optimizer_that_ignores_the_masters_is_refused(policy: str) -> None:
    model = mlp()
    with pytest.raises(PolicyError, match=r"0\.weight"):
        truestep.Update(model, lambda _: torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy, policy=policy)


def test_a_model_in_a_third_format_is_refused_by_name() -> None:
    model = mlp()
    model[0].bias.data = model[0].bias.data.half()
    with pytest.raises(PolicyError, match=r"'0\.bias' is float16"):
        build("bf16-master", model)


@pytest.mark.parametrize("policy", NARROW)
def test_what_no_optimizer_of_the_update_holds_stays_as_it_is(policy: str) -> None:
    model = mlp()
    before = weights(model)
    update = truestep.Update(model, lambda params: torch.optim.AdamW(params[2:], lr=1e-2), loss=cross_entropy, policy=policy)
    update([batch(4), batch(2)])
    assert [p.dtype for p in model.parameters()] == [torch.float32] * 2 + [NARROW[policy]] * 2
    assert set(update.weights()) == {"2.weight", "2.bias"}
    assert same(before[:2], weights(model)[:2])


@pytest.mark.parametrize("policy", NARROW)
def test_the_parameters_that_an_optimizer_is_built_from_are_the_models_in_their_order_frozen_ones_too(policy: str) -> None:
    model, given = mlp(), []
    model[0].requires_grad_(False)

    def build(params: list[nn.Parameter]) -> torch.optim.Optimizer:
        given.extend(params)
        return torch.optim.AdamW(params, lr=1e-2)

    update = truestep.Update(model, build, loss=cross_entropy, policy=policy)
    assert [(p.shape, p.requires_grad) for p in given] == [(p.shape, p.requires_grad) for p in model.parameters()]
    before = weights(model)
    update([batch(4), batch(2)])
    assert same(before[:2], weights(model)[:2])
    model[0].requires_grad_(True)
    update([batch(4), batch(2)])
    assert not same(before[:1], weights(model)[:1])


@pytest.mark.parametrize("policy", NARROW)
def test_moved_speaks_of_the_weights_that_are_stepped(policy: str) -> None:
    still = build(policy, optimizer="sgd", track_moves=True)
    still.optimizers[0].param_groups[0]["lr"] = 0.0
    assert not still([batch(4)]).moved()
    assert build(policy, track_moves=True)([batch(4)]).moved()


@pytest.mark.parametrize("policy", NARROW)
def test_an_optimizer_that_fails_at_its_first_step_leaves_everything_as_it_was(policy: str) -> None:
    class Failing(torch.optim.AdamW):
        fails = True

        def step(self, closure: Any = None) -> None:
            super().step(closure)
            if self.fails:
                raise ArithmeticError("late")

    update = truestep.Update(mlp(), Failing, loss=cross_entropy, policy=policy)
    before = weights(update.model) + list(update.weights().values())
    with pytest.raises(ArithmeticError):
        update([batch(4)])
    assert same(before, weights(update.model) + list(update.weights().values()))
    assert not update.optimizers[0].state
    Failing.fails = False
    assert update([batch(4)]).completed
