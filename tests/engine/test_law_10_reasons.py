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
    assert (outcome.skip.reason, outcome.skip.curable) == (Reason.BACKWARD, False)
    assert "may not fall below" in outcome.skip.detail
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


def field(value: float) -> dict[str, object]:
    """A batch with a field that the model does not look at."""
    x, y = batch(4)
    return {"x": x, "y": y, "unused": torch.tensor([1.0, value])}


def by_field(function=lambda loss: loss):
    return lambda model, data: function(cross_entropy(model, (data["x"], data["y"])))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_bad_value_that_nothing_was_computed_from_is_not_blamed(value: float) -> None:
    outcome = updating(mlp(), by_field(), policy="fp16", scale=LossScale.dynamic(2.0**30))([field(value)])
    assert (outcome.skip.reason, outcome.skip.curable) == (Reason.BACKWARD, True)
    outcome = updating(mlp(), by_field(lambda loss: (loss - loss.detach()).sqrt()), policy="fp16")([field(value)])
    assert (outcome.skip.reason, outcome.skip.place) == (Reason.UNDEFINED, "0.weight")
    outcome = updating(mlp(), by_field(lambda loss: (loss - 100).sqrt()))([field(value)])
    assert (outcome.skip.reason, outcome.skip.place) == (Reason.LOSS, "the loss")
    model = mlp()
    model.idle = nn.Linear(1, 1)
    nn.init.constant_(model.idle.weight, value)
    outcome = updating(model, lambda model, data: (model[:3](data[0]).sum() - 1e9).sqrt(), check_weight=False)([batch(2)])
    assert (outcome.skip.reason, outcome.skip.place) == (Reason.LOSS, "the loss")


def test_what_cures_an_attempt_is_tried_and_not_concluded_from_its_loss() -> None:
    """A loss with a constant that is not a number: the gradient does not know of it, and a smaller scale cures it."""
    update = updating(mlp(), lambda model, data: cross_entropy(model, data) + math.nan, policy="fp16", check_weight=False)
    assert math.isnan(update([batch(2)]).loss)
    update.scale = LossScale.dynamic(2.0**30)
    outcome = update([batch(2)])
    assert (outcome.completed, outcome.skip.reason, outcome.skip.curable) == (False, Reason.BACKWARD, True)
    assert update.scale.value == 2.0**29


def test_the_microbatch_whose_gradient_is_bad_is_named_before_one_whose_loss_alone_is() -> None:
    def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        value = cross_entropy(model, data)
        return value + math.nan if len(data[1]) == 2 else (value - value.detach()).sqrt()

    skip = updating(mlp(), loss, policy="fp16", check_weight=False)([batch(2), batch(3)]).skip
    assert (skip.reason, skip.place) == (Reason.UNDEFINED, "0.weight")
    assert "microbatch 1" in skip.detail


def test_a_nan_that_is_masked_in_value_and_gradient_is_completed() -> None:
    def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        x = torch.where(data[0].isnan(), 0.0, data[0])
        return cross_entropy(model, (x, data[1]))

    assert updating(mlp(), loss)([poisoned(batch(4))]).completed


def test_padding_that_is_masked_after_it_was_computed_with_is_a_bad_input_whatever_the_loss() -> None:
    def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        each = nn.functional.cross_entropy(model(data[0]), data[1], reduction="none")
        return torch.where(data[0].isnan().any(1), 0.0, each).mean()

    outcome = updating(mlp(), loss, policy="fp16")([batch(4), poisoned(batch(4))])
    assert math.isfinite(outcome.loss)
    assert (outcome.skip.reason, outcome.skip.place) == (Reason.INPUT, "microbatch 1[0]")
    assert "the loss of microbatch 1 is finite" in outcome.skip.detail


class Masked(nn.Module):
    """Attention of PyTorch's own, and a mask that is added to the scores."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused, self.head = fused, nn.Linear(4, 3)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        seen, _ = self.attention(x[None], x[None], x[None], attn_mask=mask, need_weights=not self.fused)
        return self.head(seen[0])


def masked_loss(model: nn.Module, data: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(data[0], data[2]), data[1])


CAUSAL = torch.full((4, 4), -math.inf).triu(1)


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
def test_a_mask_of_minus_infinity_is_not_a_bad_input(policy: str) -> None:
    torch.manual_seed(0)
    model = Masked(fused=False)
    assert updating(model, masked_loss, policy=policy)([(*batch(4), CAUSAL)]).completed
    scaled = updating(model, masked_loss, policy=policy, scale=LossScale.dynamic(2.0**100))
    outcome = scaled([(*batch(4), CAUSAL), (*batch(4), CAUSAL)])
    assert outcome.completed or (outcome.skip.reason, outcome.skip.curable) == (Reason.BACKWARD, True)
    bad = (*poisoned(batch(4)), CAUSAL)
    assert updating(model, masked_loss, policy=policy)([bad]).skip.place == "microbatch 0[0]"


def test_a_row_that_is_masked_whole_is_told_at_the_attention_and_traced_to_the_mask() -> None:
    torch.manual_seed(0)
    mask = CAUSAL.clone()
    mask[2] = -math.inf
    outcome = updating(Masked(fused=False), masked_loss)([(*batch(4), mask)])
    assert (outcome.skip.reason, outcome.skip.place) == (Reason.LOSS, "attention")
    assert "softmax in MultiheadAttention 'attention'" in outcome.skip.detail
    assert "microbatch 0[2]: it holds -inf, first at [0, 1]" in outcome.skip.detail


def test_an_array_that_goes_through_numpy_is_still_an_input() -> None:
    def loss(model: nn.Module, data: tuple[object, Tensor]) -> Tensor:
        return cross_entropy(model, (torch.tensor(data[0].tolist()), data[1]))

    x, y = poisoned(batch(4))
    outcome = updating(mlp(), loss)([(x.numpy(), y)])
    assert (outcome.skip.reason, outcome.skip.place) == (Reason.INPUT, "microbatch 0[0]")


def test_memory_that_was_never_written_is_told_as_such() -> None:
    def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        unwritten = torch.empty(len(data[1]), 3)  # filled with NaN where torch is asked to
        return nn.functional.cross_entropy(model(data[0]) * unwritten, data[1])

    torch.use_deterministic_algorithms(True)
    try:
        outcome = updating(mlp(), loss)([batch(2)])
    finally:
        torch.use_deterministic_algorithms(False)
    assert outcome.skip.reason is Reason.LOSS
    assert "empty in the loss" in outcome.skip.detail


class Third(nn.Module):
    """Overflows in its third forward, which its buffer counts."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("forwards", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.forwards += 1
        return self.inner(x) * (1e38 * 1e38 if self.forwards == 3 else 1.0)


def test_each_run_of_the_diagnosis_starts_from_the_buffers_that_the_window_had() -> None:
    model = Third()
    outcome = updating(model, policy="fp16")([batch(2), batch(2), batch(2), batch(2)])
    assert outcome.skip.reason is Reason.FORWARD
    assert "microbatch 2" in outcome.skip.detail
    assert "in float32" not in outcome.skip.detail  # where it overflows too, in the third forward
    assert model.forwards == 0


def test_dropout_draws_again_what_it_drew() -> None:
    """Overflows where the first element is kept, which is so in one of the two microbatches of most seeds."""
    for seed in range(8):
        model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
        nn.init.ones_(model[0].weight)
        torch.manual_seed(seed)
        drawn: list[int] = []

        def loss(model: nn.Module, data: tuple[Tensor, Tensor], drawn: list[int] = drawn) -> Tensor:
            out = model(data[0])
            drawn.append(bool(out[0, 0] != 0))
            return (out[0, 0] * 1e5).exp().sqrt() + out.sum()

        outcome = updating(model, loss, check_weight=False)([(torch.ones(1, 4), torch.zeros(1)) for _ in range(4)])
        if not any(drawn[:4]):
            assert outcome.completed
            continue
        assert outcome.skip.reason is Reason.FORWARD
        assert f"microbatch {drawn.index(True)} is inf" in outcome.skip.detail
        assert drawn[4 : 4 + drawn.index(True) + 1] == drawn[: drawn.index(True) + 1]


def test_what_cannot_be_watched_is_told_from_what_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no watching here")

    monkeypatch.setattr("truestep.engine.diagnosis.Trace", refuse)
    skip = updating(mlp(), policy="fp16")([poisoned(batch(2))]).skip
    assert (skip.reason, skip.place, skip.curable) == (Reason.INPUT, "microbatch 0[0]", False)
    assert "RuntimeError: no watching here" in skip.detail
    skip = updating(mlp(), by_field(lambda loss: (loss - loss.detach()).sqrt()), policy="fp16")([field(1.0)]).skip
    assert (skip.reason, skip.curable) == (Reason.UNDEFINED, False)
    calls = []

    def once(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        calls.append(data)
        if len(calls) > 1:
            raise ValueError("once only")
        return cross_entropy(model, data)

    skip = updating(mlp(), once, policy="fp16", scale=LossScale.dynamic(2.0**30))([batch(2)]).skip
    assert (skip.reason, skip.curable) == (Reason.BACKWARD, True)
    assert skip.detail == "told from the gradient alone; it could not be run again: ValueError: once only"


def test_an_attempt_block_blames_no_input_where_the_loss_is_finite() -> None:
    update = updating(mlp(), by_field(), policy="fp16", scale=LossScale.dynamic(2.0**30))
    with update.attempt(total=4) as attempt, attempt.autocast():
        attempt.backward(update.plan.loss(update.plan.model, field(math.nan)), 4, microbatch=field(math.nan))
    assert (attempt.outcome.skip.reason, attempt.outcome.skip.curable) == (Reason.BACKWARD, True)
    assert "microbatch 0['unused']: it holds nan" in attempt.outcome.skip.detail
    unscaled = updating(mlp(), by_field(lambda loss: (loss - loss.detach()).sqrt()))
    with unscaled.attempt(total=4) as attempt:
        attempt.backward(unscaled.plan.loss(unscaled.plan.model, field(1.0)), 4)
    assert (attempt.outcome.skip.reason, attempt.outcome.skip.place) == (Reason.UNDEFINED, "0.weight")
    assert "cannot be run again" in attempt.outcome.skip.detail
    with torch.no_grad():
        unscaled.plan.model[0].bias[0] = math.inf
    with unscaled.attempt(total=4) as attempt:
        attempt.backward(cross_entropy(unscaled.plan.model, batch(4)) * math.nan, 4)
    assert (attempt.outcome.skip.reason, attempt.outcome.skip.place) == (Reason.PARAMETER, "0.bias")


def test_what_does_not_happen_again_is_not_explained() -> None:
    losses = iter([math.nan, 1.0, 1.0, 1.0])
    update = updating(mlp(), lambda model, data: cross_entropy(model, data) * next(losses), policy="fp16", check_weight=False)
    skip = update([batch(2)]).skip
    assert (skip.reason, skip.curable) == (Reason.LOSS, False)
    assert "could not be run again" in skip.detail
    assert "the loss of microbatch 0 came out as" in skip.detail


def test_a_forward_that_has_no_float32_is_explained_without_it() -> None:
    def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        out = model(data[0])
        if out.dtype is torch.float32:
            raise RuntimeError("made for float16")
        return out.mul(1e5).sum().exp()

    skip = updating(mlp(), loss, policy="fp16", check_weight=False)([batch(2)]).skip
    assert (skip.reason, skip.place) == (Reason.FORWARD, "the loss")


def test_a_root_of_what_float16_rounds_to_0_is_undefined_there_and_finite_in_float32() -> None:
    def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        return (model(data[0]) * 1e-9).abs().sqrt().sum()

    skip = updating(mlp(), loss, policy="fp16", check_weight=False)([batch(2)]).skip
    assert skip.reason is Reason.UNDEFINED
    assert skip.detail.endswith("; in float32 it is finite")


def test_a_quotient_by_0_that_the_loss_masks_is_named_with_the_step_that_met_it() -> None:
    def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        out = model(data[0])
        return torch.where(out > 1e9, out / 0 * out, out).mean()

    skip = updating(mlp(), loss, check_weight=False)([batch(2)]).skip
    assert skip.reason is Reason.UNDEFINED
    assert "MulBackward0, the backward of mul in the loss" in skip.detail
    assert "div in the loss" in skip.detail


@pytest.mark.parametrize("policy", ["fp32", "fp16"])
def test_a_window_whose_loss_freezes_parameters_is_explained_by_the_others(policy: str) -> None:
    def loss(model: nn.Module, microbatch: tuple[Tensor, Tensor]) -> Tensor:
        model[0].requires_grad_(False)
        return cross_entropy(model, microbatch)

    outcome = updating(mlp(), loss, policy=policy)([batch(2), poisoned(batch(2), math.nan)])
    assert (outcome.skip.reason, outcome.skip.place) == (Reason.INPUT, "microbatch 1[0]")
    assert "run again" not in outcome.skip.detail
