"""Several optimizers in one update: each its own parameters, one norm, one decision, bit for bit as by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import batch, cross_entropy, everything, mlp, optimizer_state, poisoned, same, weights
from truestep.errors import OptimizerError, StateError

Pair = list[torch.optim.Optimizer]


def muon_and_adamw(model: nn.Module) -> Pair:
    """Matrices between layers by Muon, all else by AdamW, as those who train with it do."""
    matrices = [p for p in model.parameters() if p.ndim == 2]
    return [
        torch.optim.Muon(matrices, lr=0.02, weight_decay=0.1),
        torch.optim.AdamW([p for p in model.parameters() if p.ndim != 2], lr=1e-2),
    ]


def fused_and_not(model: nn.Module) -> Pair:
    return [
        torch.optim.AdamW(model[0].parameters(), lr=1e-2, fused=True),
        torch.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.9),
    ]


def both_fused(model: nn.Module) -> Pair:
    return [
        torch.optim.AdamW(model[0].parameters(), lr=1e-2, fused=True),
        torch.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.9, fused=True),
    ]


PAIRS: dict[str, Callable[[nn.Module], Pair]] = {
    "muon and adamw": muon_and_adamw,
    "fused and not": fused_and_not,
    "both fused": both_fused,
}


def hand_step(
    model: nn.Module, pair: Pair, window: list[Any], limit: float | None = None, dtype: torch.dtype | None = None
) -> None:
    for optimizer in pair:
        optimizer.zero_grad()
    total = sum(len(data[0]) for data in window)
    for data in window:
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = cross_entropy(model, data)
        (loss.float() * (len(data[0]) / total)).backward()
    if limit is not None:
        norm = torch.cat([p.grad.flatten() for p in model.parameters()]).double().norm().item()
        for p in model.parameters():
            p.grad *= min(1.0, limit / norm)
    for optimizer in pair:
        optimizer.step()


def windows() -> list[list[Any]]:
    return [[batch(4, seed), batch(2, seed + 9)] for seed in range(4)]


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
@pytest.mark.parametrize("name", PAIRS)
def test_several_optimizers_step_bit_for_bit_as_by_hand_whatever_is_skipped_between(name: str, policy: str) -> None:
    hand, ours = mlp(), mlp()
    pair = PAIRS[name](hand)
    update = truestep.Update(ours, PAIRS[name](ours), loss=cross_entropy, policy=policy)
    for window in windows():
        before = everything(update)
        assert not update([window[0], poisoned(window[1])]).completed
        assert same(before, everything(update))
        outcome = update(window)
        hand_step(hand, pair, window, dtype=torch.bfloat16 if policy == "bf16" else None)
        assert same(weights(hand), weights(ours))
        assert same(*([state for each in found for state in optimizer_state(each)] for found in (pair, update.optimizers)))
        assert outcome.lr == tuple(group["lr"] for each in pair for group in each.param_groups)
    assert (outcome.counts.completed, outcome.counts.skipped) == (4, 4)


@pytest.mark.parametrize("scale", [1.0, 65536.0])
@pytest.mark.parametrize("name", PAIRS)
def test_one_norm_over_all_of_them_clips(name: str, scale: float) -> None:
    hand, ours = mlp(), mlp()
    pair = PAIRS[name](hand)
    update = truestep.Update(
        ours, PAIRS[name](ours), loss=cross_entropy, clip=truestep.ClipNorm(0.25), scale=truestep.LossScale.static(scale)
    )
    outcome = update(windows()[0])
    hand_step(hand, pair, windows()[0], limit=0.25)
    assert outcome.grad_norm > 0.25
    assert outcome.grad_norm_clipped == 0.25
    # Two norms of 67 squares and a product for each element round differently, by fewer than 100 roundings.
    for p, q in zip(hand.parameters(), ours.parameters(), strict=True):
        assert bool(((p.grad - q.grad).abs() <= 100 * 2.0**-24 * p.grad.abs()).all())
        if name != "muon and adamw":  # whose bfloat16 iterations make of a last bit what they like
            assert float((p - q).detach().abs().max()) <= 100 * 2.0**-24


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda m: [], "no optimizer"),
        (lambda m: [torch.optim.SGD(m.parameters(), lr=0.1), torch.optim.SGD(m[0].parameters(), lr=0.1)], "same parameter"),
        (lambda m: [torch.optim.SGD(m.parameters(), lr=0.1), None], "NoneType"),
    ],
)
def test_what_cannot_step_together_is_refused(given: Callable[[nn.Module], Any], says: str) -> None:
    model = mlp()
    with pytest.raises(OptimizerError, match=says):
        truestep.Update(model, given(model), loss=cross_entropy)


@pytest.mark.parametrize("which", [0, 1])
def test_none_of_them_may_be_stepped_inside_an_attempt(which: int) -> None:
    model = mlp()
    pair = fused_and_not(model)
    update = truestep.Update(model, pair, loss=cross_entropy)
    before = everything(update)
    with pytest.raises(StateError, match="stepped inside"), update.attempt() as attempt:
        attempt.backward(cross_entropy(model, batch(4)), 4)
        pair[which].step()
    assert same(before, everything(update))


def test_parameters_that_only_one_of_them_reaches_are_all_that_moves() -> None:
    """A part that got no gradient stays, its decay and its momentum too, as by hand."""

    def of_the_first_layer(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        return model[0](data[0]).square().sum(1).mean()

    model = mlp()
    update = truestep.Update(model, fused_and_not(model), loss=of_the_first_layer)
    before = weights(model)
    assert update([batch(4)]).completed
    assert same(before[2:], weights(model)[2:])
    assert not same(before[:1], weights(model)[:1])
