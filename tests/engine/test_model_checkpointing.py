"""Activations that are computed again in backward: the same bits as by hand, and a skip undoes what both forwards wrote."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import truestep
from tests.engine.loops import batch, by_hand, cross_entropy, everything, poisoned, same, weights
from truestep.errors import LossError


class Sparing(nn.Module):
    """Forgets the activations of its trunk, which holds dropout, batch statistics and a count of forwards."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 8)
        self.trunk = nn.Sequential(nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 8))
        self.head, self.kind = nn.Linear(8, 3), kind
        self.register_buffer("forwards", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.forwards += 1
        x = self.first(x)
        if self.kind == "sequential":
            return self.head(checkpoint_sequential(self.trunk, 2, x, use_reentrant=False))
        if self.kind == "none":
            return self.head(self.trunk(x))
        return self.head(checkpoint(self.trunk, x, use_reentrant=self.kind == "reentrant"))


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["plain", "sequential"])
def test_a_checkpointed_model_trains_bit_for_bit_as_by_hand(kind: str, policy: str) -> None:
    hand, ours = Sparing(kind), Sparing(kind)
    steps, our_steps = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=cross_entropy, policy=policy)
    windows = [[batch(4, seed), batch(3, seed + 9)] for seed in range(3)]
    torch.manual_seed(1)
    for window in windows:
        by_hand(hand, steps, window, dtype=torch.bfloat16 if policy == "bf16" else None)
    torch.manual_seed(1)
    assert all(update(window).completed for window in windows)
    assert same(weights(hand), weights(ours))
    assert same([b.detach() for b in hand.buffers()], [b.detach() for b in ours.buffers()])


def test_checkpointing_changes_no_gradient() -> None:
    """Its dropout draws the same numbers again; only batch statistics move twice, as torch's do, and no gradient sees them."""
    models = [Sparing(kind) for kind in ("none", "plain", "sequential")]
    for model in models:
        update = truestep.Update(model, torch.optim.AdamW(model.parameters(), lr=1e-2), loss=cross_entropy)
        torch.manual_seed(1)
        for seed in range(3):
            assert update([batch(4, seed), batch(3, seed + 9)]).completed
    assert same(weights(models[0]), weights(models[1]))
    assert same(weights(models[0]), weights(models[2]))


@pytest.mark.parametrize("policy", ["fp32", "fp16"])
@pytest.mark.parametrize("completed_before", [0, 2])
def test_a_skip_undoes_what_the_second_forward_wrote_too(policy: str, completed_before: int) -> None:
    model = Sparing("plain")
    update = truestep.Update(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-2),
        loss=cross_entropy,
        policy=policy,
        scale=truestep.LossScale.dynamic(1024.0) if policy == "fp16" else None,
    )
    for seed in range(completed_before):
        assert update([batch(4, seed)]).completed
    before = everything(update)
    outcome = update([batch(4, 7), poisoned(batch(4, 8))])
    assert outcome.skip.reason is truestep.Reason.INPUT
    assert same(before, everything(update))


def test_an_overflow_of_a_checkpointed_backward_is_cured_by_a_smaller_scale() -> None:
    model = Sparing("plain")
    update = truestep.Update(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-2),
        loss=cross_entropy,
        policy="fp16",
        scale=truestep.LossScale.dynamic(2.0**20, backoff=2.0**-10),
    )
    before = everything(update)
    outcome = update([batch(4), batch(3)])
    assert outcome.skip.reason is truestep.Reason.BACKWARD
    assert outcome.next_loss_scale == 2.0**10
    assert same(before, everything(update))
    assert update([batch(4), batch(3)]).completed


def test_a_reentrant_checkpoint_below_trained_layers_is_refused_by_name() -> None:
    model = Sparing("reentrant")
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    before = everything(update)
    with pytest.raises(LossError, match="use_reentrant=True"):
        update([batch(4)])
    assert same(before, everything(update))
