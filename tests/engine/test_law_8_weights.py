"""Law 8: every loss gets its share of the window's total before backward; what cannot be a weight is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, poisoned, same, split, weights
from truestep.errors import LossError, WeightError, WindowError

U = 2.0**-24
Sequences = tuple[Tensor, Tensor]


def sequences(counts: list[int], length: int = 7, seed: int = 0) -> Sequences:
    """Token inputs and labels; of sequence i the last `length - counts[i]` labels are ignored."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(counts), length, 4, generator=generator)
    y = torch.randint(0, 3, (len(counts), length), generator=generator)
    for row, count in zip(y, counts, strict=True):
        row[count:] = -100
    return x, y


def token_mean(model: nn.Module, data: Sequences) -> Tensor:
    return nn.functional.cross_entropy(model(data[0]).flatten(0, 1), data[1].flatten())


def masked_mean(model: nn.Module, data: Sequences) -> Tensor:
    mask = data[1] != -100
    each = nn.functional.cross_entropy(model(data[0]).transpose(1, 2), data[1], reduction="none")
    return (each * mask).sum() / mask.sum()


def token_sum(model: nn.Module, data: Sequences) -> Tensor:
    return nn.functional.cross_entropy(model(data[0]).flatten(0, 1), data[1].flatten(), reduction="sum")


def scored_tokens(data: Sequences) -> Tensor:
    return (data[1] != -100).sum()


def updating(loss=token_mean, weight=scored_tokens, **options) -> truestep.Update:
    model = mlp()
    return truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss, weight=weight, **options)


def full_batch_gradient(parts: list[Sequences]) -> list[Tensor]:
    model = mlp().double()
    x, y = (torch.cat(side) for side in zip(*parts, strict=True))
    token_mean(model, (x.double(), y)).backward()
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize(("loss", "loss_is"), [(token_mean, "mean"), (masked_mean, "mean"), (token_sum, "sum")])
@settings(deadline=None, max_examples=25)
@given(counts=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=4), min_size=1, max_size=4))
def test_unequal_token_counts_give_the_mean_over_all_tokens(loss, loss_is: str, counts: list[list[int]]) -> None:
    parts = [sequences(c, seed=i) for i, c in enumerate(counts)]
    update = updating(loss, loss_is=loss_is)
    outcome = update(parts)
    total = sum(map(sum, counts))
    assert outcome.weight == total
    assert outcome.completed is (total > 0)
    if total:
        for p, exact in zip(update.plan.model.parameters(), full_batch_gradient(parts), strict=True):
            # Forward and backward of an MLP of widths 4, 8, 3 over at most 112 tokens: under 2^8 roundings along any path, of
            # terms whose sizes add up to at most 4 (|softmax - target| <= 1, |x| and |w| mostly below 4).
            assert bool(((p.grad.double() - exact).abs() <= 2**8 * U * 4).all())


def test_lesson_b4_is_the_token_mean_and_not_the_mean_of_means() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    outcome = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0),
        loss=lambda model, part: (model.weight * 0 + part[0]).sum(),
        weight=lambda part: part[1],
        examples=lambda part: 1,
        check_weight=False,
    )([(2.0, 100), (4.0, 10)])
    assert outcome.loss == pytest.approx(24 / 11, rel=1e-15)


def test_a_microbatch_of_weight_zero_gets_no_backward_and_its_nan_loss_is_not_seen() -> None:
    with_empty, without = updating(), updating()
    parts = [sequences([3, 4]), sequences([0, 0], seed=1), sequences([7, 1], seed=2)]
    outcome = with_empty(parts)
    assert token_mean(with_empty.plan.model, parts[1]).isnan()
    assert outcome.loss == without([parts[0], parts[2]]).loss
    assert same(weights(with_empty.plan.model), weights(without.plan.model))
    assert outcome.microbatches == 3
    assert outcome.examples == 6


@pytest.mark.parametrize("loss", [token_mean, masked_mean])
def test_a_window_without_a_scored_token_is_skipped_for_that_reason(loss) -> None:
    update = updating(loss, policy="fp16")
    before, scale = weights(update.plan.model), update.scale
    outcome = update([sequences([0]), sequences([0, 0])])
    assert outcome.skip is not None
    assert outcome.skip.reason is truestep.Reason.WEIGHT
    assert outcome.loss is None
    assert outcome.weight == 0.0
    assert same(before, weights(update.plan.model))
    assert update.scale == scale
    assert all(p.grad is None for p in update.plan.model.parameters())


def test_weights_relative_to_the_first_end_at_the_same_mean() -> None:
    parts = [sequences([1, 2]), sequences([7, 7], seed=1), sequences([0], seed=2), sequences([5], seed=3)]
    known, relative = updating(), updating()
    outcome = known(parts)
    with relative.attempt() as attempt:
        for part in parts:
            attempt.backward(token_mean(relative.plan.model, part), scored_tokens(part), microbatch=part)
    assert attempt.outcome.weight == 22
    for p, exact in zip(relative.plan.model.parameters(), full_batch_gradient(parts), strict=True):
        assert bool(((p.grad.double() - exact).abs() <= 2**8 * U * 4).all())
    assert attempt.outcome.loss == pytest.approx(outcome.loss, rel=1e-15 * 16)  # float64 sums of four products


def test_a_first_weight_of_zero_is_no_reference() -> None:
    update = updating()
    with update.attempt() as attempt:
        for part in (sequences([0]), sequences([4])):
            attempt.backward(token_mean(update.plan.model, part), scored_tokens(part))
    assert attempt.outcome.completed
    assert attempt.outcome.weight == 4


@pytest.mark.parametrize("second", [257.0, 1 / 257])
def test_a_ratio_beyond_two_to_the_eight_asks_for_the_total(second: float) -> None:
    update = updating(loss=cross_entropy, weight=None, check_weight=False)
    before = weights(update.plan.model)
    with pytest.raises(WeightError, match="total=") as caught, update.attempt() as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(2)), 1.0)
        attempt.backward(cross_entropy(update.plan.model, batch(2)), second)
    assert (caught.value.weight, caught.value.first) == (second, 1.0)
    assert same(before, weights(update.plan.model))
    with update.attempt(total=1.0 + second) as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(2)), 1.0)
        attempt.backward(cross_entropy(update.plan.model, batch(2)), second)
    assert attempt.outcome.completed


def test_weights_whose_sum_no_float_holds_are_refused_in_a_block_as_in_a_call() -> None:
    update = updating(cross_entropy, lambda data: 1e308, check_weight=False)
    before = weights(update.plan.model)
    with pytest.raises(WeightError, match="this is inf"):
        update([batch(2), batch(2)])
    with pytest.raises(WeightError, match="this is inf"), update.attempt() as attempt:
        for _ in range(2):
            attempt.backward(cross_entropy(update.plan.model, batch(2)), 1e308)
    assert same(before, weights(update.plan.model))


def test_a_declared_total_that_is_not_the_sum_is_refused() -> None:
    update = updating(loss=cross_entropy, weight=None)
    before = weights(update.plan.model)
    with pytest.raises(WeightError, match="add up to 4") as caught, update.attempt(total=8) as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(4)), 4)
    assert (caught.value.total, caught.value.found) == (8, 4)
    assert same(before, weights(update.plan.model))


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, 10**400, -(10**400), None, "three", torch.ones(2)])
def test_what_is_no_weight_is_refused(bad: object) -> None:
    update = updating(loss=cross_entropy, weight=lambda data: bad)
    with pytest.raises(WeightError, match="weight"):
        update([batch(2)])
    assert update.counts.attempts == 0


def test_examples_for_a_token_loss_are_refused_with_both_numbers() -> None:
    update = updating(weight=None)
    before = weights(update.plan.model)
    with pytest.raises(WeightError, match="the declared weight is 2, and the loss is a mean over 9") as caught:
        update([sequences([2, 7])])
    assert (caught.value.weight, caught.value.denominator) == (2, 9)
    assert "Update(weight=...)" in caught.value.hint
    assert same(before, weights(update.plan.model))
    assert update.counts.attempts == 0


def test_unshifted_label_counts_of_a_causal_model_are_refused_with_both_numbers() -> None:
    def causal(model: nn.Module, data: Sequences) -> Tensor:
        return token_mean(model, (data[0][:, :-1], data[1][:, 1:]))

    update = updating(causal, weight=scored_tokens)
    with pytest.raises(WeightError, match="weight is 12, and the loss is a mean over 10") as caught:
        update([sequences([7, 5])])
    assert "shifted" in caught.value.hint
    assert updating(causal, weight=lambda data: (data[1][:, 1:] != -100).sum())([sequences([7, 5])]).completed


@pytest.mark.parametrize(("loss", "loss_is"), [(token_sum, "mean"), (token_mean, "sum")])
def test_a_sum_declared_a_mean_and_a_mean_declared_a_sum_are_refused(loss, loss_is: str) -> None:
    with pytest.raises(WeightError, match=f"loss_is='{loss_is}' was declared"):
        updating(loss, loss_is=loss_is)([sequences([2, 7])])


def test_a_mean_over_outputs_may_be_in_proportion_but_then_always() -> None:
    def squares(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).square().mean()

    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=squares)
    outcome = update([torch.randn(4, 4), torch.randn(2, 4)])
    assert "3 elements for each unit of weight" in outcome.weight_check
    with pytest.raises(WeightError, match="before over 3"):
        update([torch.randn(2, 4), torch.randn(2, 5, 4)])


def test_what_the_graph_does_not_tell_is_recorded_as_not_checked() -> None:
    class Opaque(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            ctx.shape = x.shape
            return x.mean()

        @staticmethod
        def backward(ctx, grad: Tensor) -> Tensor:
            return grad.expand(ctx.shape) / math.prod(ctx.shape)

    model = mlp()
    update = truestep.Update(
        model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda model, data: Opaque.apply(model(data[0]))
    )
    assert update([batch(4)]).weight_check == "not checked: the graph does not tell (OpaqueBackward)"


def test_shares_are_added_as_they_are() -> None:
    summed, shared = updating(cross_entropy, None), updating(cross_entropy, None, loss_is="share")
    parts = split(batch(6), [3, 3])
    with summed.attempt() as attempt:
        for part in parts:
            attempt.backward(cross_entropy(summed.plan.model, part), share=1.0)
    outcome = shared(parts)
    assert same(weights(summed.plan.model), weights(shared.plan.model))
    assert outcome.weight is None
    assert outcome.loss == attempt.outcome.loss


@pytest.mark.parametrize("share", [np.float32(0.5), torch.tensor(0.5), torch.tensor([0.5], dtype=torch.bfloat16), True])
def test_a_share_of_any_number_leaves_an_outcome_of_floats(share: object) -> None:
    update, plain = updating(cross_entropy, None), updating(cross_entropy, None)
    for each, number in ((update, share), (plain, float(share))):
        with each.attempt() as attempt:
            attempt.backward(cross_entropy(each.plan.model, batch(4)), share=number)
        assert type(attempt.outcome.loss) is float
    assert same(weights(update.plan.model), weights(plain.plan.model))


@pytest.mark.parametrize("share", [math.nan, math.inf, 10**400, "half", torch.ones(2)])
def test_what_is_no_share_is_refused(share: object) -> None:
    update = updating(cross_entropy, None)
    with pytest.raises(WeightError, match="a share is"), update.attempt() as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(4)), share=share)


def test_a_share_after_relative_weights_has_no_meaning() -> None:
    update = updating(cross_entropy, None)
    with pytest.raises(WeightError, match="total"), update.attempt() as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(4)), 4)
        attempt.backward(cross_entropy(update.plan.model, batch(4)), share=1.0)


def test_a_backward_without_weight_is_refused() -> None:
    update = updating(cross_entropy, None)
    with pytest.raises(WeightError, match="no weight was given"), update.attempt() as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(4)))


@pytest.mark.parametrize("window", [[], (), None, batch(4), torch.zeros(2, 4), {"x": torch.zeros(2)}])
def test_what_is_no_window_is_refused(window: object) -> None:
    update = updating(cross_entropy, None)
    with pytest.raises(WindowError):
        update(window)


def test_examples_that_cannot_be_read_are_asked_for() -> None:
    update = updating(lambda model, text: cross_entropy(model, batch(4)), None)
    with pytest.raises(WindowError, match="examples"):
        update(["a text"])


def test_a_weightless_window_of_poison_is_weightless_first() -> None:
    update = updating(cross_entropy, weight=lambda data: 0)
    assert update([poisoned(batch(2))]).skip.reason is truestep.Reason.WEIGHT


def test_a_mistaken_loss_is_named_even_at_weight_one() -> None:
    with pytest.raises(LossError, match="shape"):
        updating(lambda model, data: model(data[0]), lambda data: 1)([batch(4)])
