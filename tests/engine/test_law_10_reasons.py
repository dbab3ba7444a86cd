"""Law 10, as far as one process can tell: a skip has a reason and names the first offender."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, poisoned, same, weights
from truestep import LossScale, Reason
from truestep.errors import SkipLimitError


def updating(model: nn.Module, loss=cross_entropy, **options) -> truestep.Update:
    return truestep.Update(model, torch.optim.AdamW(model.parameters(), fused=True), loss=loss, **options)


class Exponential(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float().mul(100.0).exp()


class Attention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        logits = x @ x.transpose(-1, -2)
        return (logits - logits.amax(-1, keepdim=True)).softmax(-1) @ x


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_non_finite_input_is_named_by_microbatch_and_place(policy: str, value: float) -> None:
    outcome = updating(mlp(), policy=policy)([batch(2), batch(2), poisoned(batch(2), value)])
    assert outcome.skip.reason is Reason.INPUT
    assert outcome.skip.place == "microbatch 2[0]"
    assert str(value) in outcome.skip.detail
    assert not outcome.skip.curable


def test_a_non_finite_parameter_is_named() -> None:
    model = mlp()
    with torch.no_grad():
        model[2].bias[1] = math.nan
    outcome = updating(model)([batch(2)])
    assert (outcome.skip.reason, outcome.skip.place) == (Reason.PARAMETER, "2.bias")


def test_an_infinity_in_a_named_module_is_a_forward_overflow_there() -> None:
    model = nn.Sequential(nn.Linear(4, 4), Exponential(), nn.Linear(4, 3))
    with torch.no_grad():
        model[0].bias.fill_(5.0)
    outcome = updating(model)([batch(2), batch(3)])
    assert outcome.skip.reason is Reason.FORWARD
    assert outcome.skip.place == "1"
    assert "Exponential" in outcome.skip.detail
    assert not outcome.skip.curable


def test_attention_logits_beyond_float16_are_a_forward_overflow_that_float32_does_not_have() -> None:
    model = nn.Sequential(nn.Linear(4, 4), Attention(), nn.Linear(4, 3))
    nn.init.eye_(model[0].weight)
    data = (torch.full((2, 4), 300.0), torch.zeros(2, dtype=torch.long))
    outcome = updating(model, policy="fp16")([data])
    assert outcome.skip.reason is Reason.FORWARD
    assert outcome.skip.place == "1"
    assert "in float32" in outcome.skip.detail
    assert updating(model, policy="bf16")([data]).completed


def test_a_loss_that_is_not_defined_is_told_from_a_module_that_overflows() -> None:
    outcome = updating(mlp(), lambda model, data: (model(data[0]) - 1e9).sqrt().mean(), check_weight=False)([batch(2)])
    assert outcome.skip.reason is Reason.LOSS
    assert outcome.skip.place == "the loss"


def test_a_square_root_at_zero_is_an_undefined_gradient_at_every_scale() -> None:
    model = nn.Linear(4, 3, bias=False)
    nn.init.zeros_(model.weight)
    update = updating(model, lambda model, data: model(data[0]).float().square().sum(1).sqrt().mean(), policy="fp16")
    scale = update.scale
    outcome = update([batch(2)])
    assert (outcome.skip.reason, outcome.skip.place) == (Reason.UNDEFINED, "weight")
    assert not outcome.skip.curable
    assert update.scale == scale


def test_a_scale_that_is_too_large_is_a_backward_overflow_that_a_smaller_one_cures() -> None:
    update = updating(mlp(), policy="fp16", scale=LossScale.dynamic(2.0**30))
    outcome = update([batch(2)])
    assert outcome.skip.reason is Reason.BACKWARD
    assert outcome.skip.curable
    assert "finite at a loss scale of" in outcome.skip.detail


def test_at_its_minimum_a_scale_cannot_cure() -> None:
    update = updating(mlp(), policy="fp16", scale=LossScale.dynamic(2.0**30, min=2.0**30))
    outcome = update([batch(2)])
    assert (outcome.skip.reason, outcome.skip.curable) == (Reason.UNDEFINED, False)
    fixed = updating(mlp(), policy="fp16", scale=LossScale.static(2.0**30))([batch(2)])
    assert (fixed.skip.reason, fixed.skip.curable) == (Reason.BACKWARD, False)


def test_an_attempt_block_says_what_it_can_tell_and_what_it_cannot() -> None:
    update = updating(mlp(), policy="fp16", scale=LossScale.dynamic(2.0**30))
    with update.attempt(total=2) as attempt:
        with attempt.autocast():
            loss = cross_entropy(update.plan.model, batch(2))
        attempt.backward(loss, 2)
    assert attempt.outcome.skip.reason is Reason.BACKWARD
    assert attempt.outcome.skip.curable
    assert "cannot be run again" in attempt.outcome.skip.detail
    with update.attempt(total=2) as attempt, attempt.autocast():
        attempt.backward(cross_entropy(update.plan.model, poisoned(batch(2))), 2)
    assert (attempt.outcome.skip.reason, attempt.outcome.skip.place) == (Reason.LOSS, None)
    with update.attempt(total=2) as attempt, attempt.autocast():
        attempt.backward(cross_entropy(update.plan.model, poisoned(batch(2))), 2, microbatch=poisoned(batch(2)))
    assert attempt.outcome.skip.reason is Reason.INPUT


def test_the_window_runs_again_under_the_random_state_that_it_had() -> None:
    def noisy(factor: float) -> tuple[list[float], float]:
        """The noises that a window's forwards drew, and what is drawn after it."""
        seen: list[float] = []

        def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
            seen.append(float(torch.rand(())))
            return cross_entropy(model, data) * (factor if len(data[1]) == 3 else 1.0)

        updating(mlp(), loss, check_weight=False)([batch(2), batch(3)])
        return seen, float(torch.rand(()))

    once, after = noisy(1.0)
    again, after_diagnosis = noisy(math.inf)
    assert len(once) == 2
    assert again[:2] == once
    assert again[2:] == once * (len(again) // 2 - 1)
    assert len(again) > 2
    assert after_diagnosis == after


def test_a_diagnosis_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    update = updating(model, policy="fp16", scale=LossScale.dynamic(2.0**30))
    before = weights(model) + [b.clone() for b in model.buffers()]
    assert not update([batch(4), batch(2)]).completed
    assert same(before, weights(model) + [b.clone() for b in model.buffers()])
    assert all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_too_many_skips_in_a_row_end_the_run_with_outcome_and_diagnosis() -> None:
    update = updating(mlp(), max_consecutive_skips=3)
    update([poisoned(batch(2))])
    update([batch(2)])
    update([poisoned(batch(2))])
    update([poisoned(batch(2))])
    with pytest.raises(SkipLimitError, match="3 attempts in a row were skipped") as caught:
        update([poisoned(batch(2))])
    assert caught.value.outcome.skip.reason is Reason.INPUT
    assert caught.value.outcome.counts == update.counts
    assert update.counts.attempts == 5


def test_an_ordinary_attempt_runs_each_forward_once() -> None:
    calls = []

    def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        calls.append(len(data[1]))
        return cross_entropy(model, data)

    updating(mlp(), loss)([batch(2), batch(3)])
    assert calls == [2, 3]
