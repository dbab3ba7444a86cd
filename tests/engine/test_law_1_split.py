"""Law 1: every split of the same examples gives the same gradient at the optimizer, within a derived bound."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import truestep
from tests.engine.loops import OPTIMIZERS, batch, cross_entropy, mlp, same, split, weights

U = 2.0**-24  # half a unit in the last place of float32


def gamma(n: int) -> float:
    """The error of n roundings one after the other (Higham 2002, lemma 3.1)."""
    return n * U / (1 - n * U)


def logistic_loss(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(model(data[0]).squeeze(1), data[1])


def exact_gradient_and_bound(model: nn.Linear, x: torch.Tensor, y: torch.Tensor, parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The float64 gradient of the mean logistic loss by weight and bias, and how far a float32 one may lie from it.

    Example i contributes g_i = (s(z_i) - y_i) a_i / n, a_i = (x_i, 1). z has d + 1 products and sums, so that
    |dz| <= gamma(d + 2) * sum |w a|. s is 1/4-Lipschitz and costs an exp, a sum, a quotient and a difference: 8 roundings are
    allowed. Then come the product with a_i, the share (2 roundings: share and scale), the sum over n examples in any order, and
    `parts` additions into the accumulator.
    """
    a = torch.cat([x, torch.ones(len(x), 1)], 1).double()
    w = torch.cat([model.weight[0], model.bias]).detach().double()
    error = torch.sigmoid(a @ w) - y.double()
    exact = (error[:, None] * a).sum(0) / len(x)
    dz = gamma(x.shape[1] + 2) * (a.abs() @ w.abs())
    per_example = (0.25 * dz + 8 * U)[:, None] * a.abs()
    bound = (per_example + gamma(len(x) + parts + 4) * (error[:, None] * a).abs()).sum(0) / len(x)
    return exact, bound


@settings(deadline=None, max_examples=60)
@given(cuts=st.lists(st.integers(1, 9), min_size=1, max_size=8), seed=st.integers(0, 10_000))
def test_every_split_gives_the_gradient_of_the_full_batch_within_the_derived_bound(cuts: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    x, y = torch.randn(sum(cuts), 5), torch.randint(0, 2, (sum(cuts),)).float()
    model = nn.Linear(5, 1)
    exact, bound = exact_gradient_and_bound(model, x, y, len(cuts))
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=logistic_loss)
    update(list(zip(x.split(cuts), y.split(cuts), strict=True)))
    found = torch.cat([model.weight.grad[0], model.bias.grad]).double()
    assert bool(((found - exact).abs() <= bound).all())
    assert float(bound.max()) < 1e-5  # the bound would notice a wrong share: one example in 72 weighs more than that


def test_a_wrong_share_breaks_the_bound() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(11, 5), torch.randint(0, 2, (11,)).float()
    model = nn.Linear(5, 1)
    exact, bound = exact_gradient_and_bound(model, x, y, 2)
    parts = list(zip(x.split([1, 10]), y.split([1, 10]), strict=True))
    update = truestep.Update(
        model, torch.optim.SGD(model.parameters(), lr=0.0), loss=logistic_loss, weight=lambda part: 1, check_weight=False
    )
    update(parts)  # the mean of two means
    found = torch.cat([model.weight.grad[0], model.bias.grad]).double()
    assert bool(((found - exact).abs() > bound).any())


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_microbatch_is_bit_equal_to_a_hand_written_loop_for_every_weight(policy: str, optimizer: str) -> None:
    dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[policy]
    by_hand, ours = mlp(), mlp()
    hand_optimizer, our_optimizer = (OPTIMIZERS[optimizer](m.parameters()) for m in (by_hand, ours))
    scaler = torch.amp.GradScaler("cpu", enabled=policy == "fp16")
    weight = iter([1, 3, 7.0, 0.1, 1e9])
    update = truestep.Update(
        ours, our_optimizer, loss=cross_entropy, policy=policy, weight=lambda data: next(weight), check_weight=False
    )
    for step in range(5):
        data = batch(6, seed=step)
        hand_optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = cross_entropy(by_hand, data)
        scaler.scale(loss).backward()
        scaler.step(hand_optimizer)
        scaler.update()
        assert update([data]).completed
        assert same(weights(by_hand), weights(ours))


@pytest.mark.parametrize("total", [1, 3, 7, 10, 100, 1023])
def test_a_sum_loss_is_bit_equal_to_dividing_it_by_hand(total: int) -> None:
    def summed(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return nn.functional.cross_entropy(model(data[0]), data[1], reduction="sum")

    by_hand, ours, data = mlp(), mlp(), batch(6)
    (summed(by_hand, data) * (1.0 / total)).backward()
    update = truestep.Update(
        ours, torch.optim.SGD(ours.parameters(), lr=0.0), loss=summed, loss_is="sum", weight=lambda data: total
    )
    update([data])
    assert same([p.grad for p in by_hand.parameters()], [p.grad for p in ours.parameters()])


def test_the_attempt_block_and_the_call_make_the_same_update() -> None:
    data = split(batch(12), [5, 4, 3])
    called, blocked = mlp(), mlp()
    first = truestep.Update(called, torch.optim.SGD(called.parameters(), lr=0.1), loss=cross_entropy, policy="bf16")
    second = truestep.Update(blocked, torch.optim.SGD(blocked.parameters(), lr=0.1), loss=cross_entropy, policy="bf16")
    outcome = first(data)
    with second.attempt(total=12) as attempt:
        for part in data:
            with attempt.autocast():
                loss = cross_entropy(blocked, part)
            attempt.backward(loss, len(part[1]), microbatch=part)
    assert same(weights(called), weights(blocked))
    assert outcome.counts == attempt.outcome.counts
    assert outcome.loss == attempt.outcome.loss


def test_microbatches_of_equal_weight_may_come_in_any_order() -> None:
    data = split(batch(12), [4, 4, 4])
    gradients = []
    for order in itertools.permutations(data):
        model = mlp()
        truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=cross_entropy)(list(order))
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    # Three terms added in another order: two roundings each, of partial sums no larger than the sum of the terms' sizes.
    parts = []
    for part in data:
        model = mlp()
        (cross_entropy(model, part) / 3).backward()
        parts.append(torch.cat([p.grad.flatten() for p in model.parameters()]).abs())
    for gradient in gradients[1:]:
        assert bool(((gradient - gradients[0]).abs() <= 2 * gamma(2) * sum(parts)).all())
