"""The average of the weights: its formula, law 5 on a skip, its time in the model, and its way to disk and back."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, poisoned, same, weights
from truestep.errors import StateError, UsageError

FP32 = ("fp32", lambda model: torch.optim.AdamW(model.parameters(), lr=0.1))
MASTER = ("bf16-master", lambda model: lambda params: torch.optim.AdamW(params, lr=0.1))
PURE = ("bf16-pure", lambda model: lambda params: torch.optim.AdamW(params, lr=0.1))
POLICIES = [FP32, MASTER, PURE]


def made(kind: tuple[str, Callable[..., Any]] = FP32, **options: Any) -> tuple[truestep.Update, truestep.Ema]:
    policy, optimizer = kind
    model = mlp()
    update = truestep.Update(model, optimizer(model), loss=cross_entropy, policy=policy)
    return update, truestep.Ema(update, **options)


def shadow(ema: truestep.Ema) -> list[Tensor]:
    return [tensor.clone() for tensor in ema.state_dict()["shadow"].values()]


@pytest.mark.parametrize("kind", POLICIES, ids=lambda kind: kind[0])
@pytest.mark.parametrize("warmup", [False, True])
def test_the_average_follows_its_formula_in_float32(kind: tuple[str, Callable[..., Any]], warmup: bool) -> None:
    update, ema = made(kind, decay=0.5, warmup=warmup)
    by_hand = [w.double() for w in update.weights().values()]
    for n in range(6):
        ema.after(update([batch(4, n)]))
        decay = min(0.5, (1 + n) / (10 + n)) if warmup else 0.5
        by_hand = [old * decay + new.double() * (1 - decay) for old, new in zip(by_hand, update.weights().values(), strict=True)]
    assert ema.completed == 6
    for got, exact in zip(shadow(ema), by_hand, strict=True):
        assert got.dtype is torch.float32
        # each of six moves rounds a difference, a product and a sum of numbers below 2: at most 3 * 2^-24 * 2 each
        assert torch.allclose(got.double(), exact, rtol=0, atol=6 * 3 * 2**-24 * 2)


@pytest.mark.parametrize("kind", POLICIES, ids=lambda kind: kind[0])
def test_a_skip_leaves_the_average_as_it_was(kind: tuple[str, Callable[..., Any]]) -> None:
    update, ema = made(kind)
    ema.after(update([poisoned(batch(4))]))
    ema.after(update([batch(4)]))
    before = shadow(ema)
    outcome = update([poisoned(batch(4))])
    assert not outcome.completed
    ema.after(outcome)
    assert same(shadow(ema), before)
    assert ema.completed == 1


def test_a_bfloat16_average_would_stick_where_the_shadow_moves() -> None:
    """Weights that drift from 1 to 2: with decay 0.999, a move of at most 0.001 is below half of bfloat16's last place at 1."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.001), loss=lambda model, x: -model(x).mean())
    ema, narrow = truestep.Ema(update, decay=0.999), model.weight.detach().bfloat16()
    for _ in range(1000):
        ema.after(update([torch.ones(2, 1)]))
        narrow.lerp_(model.weight.detach().bfloat16(), 0.001)
    assert model.weight.item() == pytest.approx(2.0, abs=1e-3)
    assert narrow.item() == 1.0
    # the average of a ramp of n steps of 1 / n lags by (1 - decay^n) / (n * (1 - decay)): 1 - 0.632
    assert shadow(ema)[0].item() == pytest.approx(2.0 - (1 - 0.999**1000), abs=2e-3)


@pytest.mark.parametrize("kind", POLICIES, ids=lambda kind: kind[0])
def test_the_average_is_in_the_model_inside_and_the_weights_are_back_bit_for_bit_afterwards(
    kind: tuple[str, Callable[..., Any]],
) -> None:
    update, ema = made(kind)
    for n in range(3):
        ema.after(update([batch(4, n)]))
    model, before, stepped = update.model, weights(update.model), [w.clone() for w in update.weights().values()]
    with ema.applied():
        inside = weights(model)
        assert same(inside, [s.to(p.dtype) for s, p in zip(shadow(ema), model.parameters(), strict=True)])
        model(batch(4)[0].to(model[0].weight.dtype))
    assert not same(inside, before)
    with pytest.raises(KeyError), ema.applied():
        raise KeyError
    assert same(weights(model), before)
    assert same(list(update.weights().values()), stepped)
    outcome = update([batch(4, 9)])  # masters have not been told of a write
    assert outcome.completed
    ema.after(outcome)


def test_buffers_stay_the_models_own() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    ema = truestep.Ema(update)
    ema.after(update([batch(4)]))
    mean = model[1].running_mean.clone()
    assert mean.any()
    with ema.applied():
        assert torch.equal(model[1].running_mean, mean)
    assert "1.running_mean" not in ema.state_dict()["shadow"]


def test_no_attempt_is_made_with_the_average_in_the_model() -> None:
    update, ema = made()
    before = weights(update.model)
    with pytest.raises(StateError), ema.applied():
        update([batch(4)])
    with pytest.raises(StateError), update.attempt(total=4), ema.applied():
        pass
    assert same(weights(update.model), before)
    assert update.counts == truestep.Counts()


def test_each_attempt_counts_once_and_none_that_completed_is_left_out() -> None:
    update, ema = made()
    first, second = update([batch(4)]), update([batch(4)])
    with pytest.raises(StateError, match="not told of 1 completed"):
        ema.after(second)
    ema.after(first)
    with pytest.raises(StateError, match="seen attempt 1, and was given attempt 1"):
        ema.after(first)
    ema.after(second)
    with pytest.raises(StateError, match="seen attempt 2, and was given attempt 1"):
        ema.after(first)
    assert ema.completed == 2
    update([poisoned(batch(4))])  # a skip moves nothing, and may go untold
    ema.after(update([batch(4)]))
    late = truestep.Ema(update)
    late.after(update([batch(4)]))
    assert (ema.completed, late.completed) == (3, 1)


@pytest.mark.parametrize("kind", POLICIES, ids=lambda kind: kind[0])
def test_a_loaded_average_goes_on_bit_for_bit(kind: tuple[str, Callable[..., Any]]) -> None:
    update, ema = made(kind, warmup=True)
    for n in range(3):
        ema.after(update([batch(4, n)]))
    file = io.BytesIO()
    torch.save(ema.state_dict(), file)
    file.seek(0)
    again = truestep.Ema(update, warmup=True)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert same(shadow(again), shadow(ema))
    for n in range(3):
        outcome = update([batch(4, n)])
        ema.after(outcome)
        again.after(outcome)
    assert same(shadow(again), shadow(ema))
    assert again.completed == ema.completed == 6
    with pytest.raises(StateError, match="seen attempt"):
        again.after(outcome)


def test_a_state_of_another_average_is_refused_and_nothing_has_changed() -> None:
    update, ema = made()
    ema.after(update([batch(4)]))
    before, state = shadow(ema), ema.state_dict()
    for wrong in (
        {},
        None,
        state | {"schema": 2},
        state | {"decay": 0.9},
        state | {"warmup": True},
        state | {"completed": "many"},
        state | {"shadow": {}},
        state | {"shadow": state["shadow"] | {"more": torch.ones(1)}},
        state | {"shadow": {name: tensor[:1] for name, tensor in state["shadow"].items()}},
    ):
        with pytest.raises(StateError):
            ema.load_state_dict(wrong)
    assert same(shadow(ema), before)
    assert ema.completed == 1


def test_a_loaded_state_is_a_copy() -> None:
    update, ema = made()
    other = truestep.Ema(update)
    other.load_state_dict(ema.state_dict())
    ema.after(update([batch(4)]))
    assert not same(shadow(ema), shadow(other))


def test_weights_of_a_later_group_start_as_they_are() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    update = truestep.Update(model, optimizer, loss=cross_entropy)
    ema = truestep.Ema(update, decay=0.5)
    ema.after(update([batch(4)]))
    optimizer.add_param_group({"params": model[2].parameters()})
    ema.after(update([batch(4)]))
    ema.after(update([batch(4)]))
    assert set(ema.state_dict()["shadow"]) == set(dict(model.named_parameters()))
    with ema.applied():
        pass


@pytest.mark.parametrize("decay", [0.0, 1.0, -1.0, float("nan")])
def test_a_decay_that_averages_nothing_is_refused(decay: float) -> None:
    with pytest.raises(UsageError, match="averages nothing"):
        made(decay=decay)


def test_a_parameter_that_is_not_the_models_is_refused() -> None:
    model = mlp()
    free = nn.Parameter(torch.ones(1))
    update = truestep.Update(
        model,
        torch.optim.SGD([*model.parameters(), free], lr=0.1),
        loss=lambda model, data: cross_entropy(model, data) * free.sum(),
    )
    with pytest.raises(UsageError, match=r"param_groups\[0\]\['params'\]\[4\]"):
        truestep.Ema(update)
