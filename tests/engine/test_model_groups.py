"""Parameters in groups, frozen, unfrozen, unused or added later: each group steps by its own settings, as by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import truestep
from tests.engine.loops import Batch, batch, by_hand, cross_entropy, everything, mlp, optimizer_state, poisoned, same, weights


def grouped(model: nn.Module) -> torch.optim.Optimizer:
    """Matrices decay and biases do not; the head learns faster."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    biases = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW(
        [
            {"params": matrices[:-1], "weight_decay": 0.1},
            {"params": matrices[-1:], "weight_decay": 0.1, "lr": 0.1},
            {"params": biases, "weight_decay": 0.0},
        ],
        lr=1e-2,
    )


def test_groups_step_by_their_own_settings_as_by_hand_and_tell_each_its_rate() -> None:
    hand, ours = mlp(), mlp()
    steps, our_steps = grouped(hand), grouped(ours)
    scheduler, our_scheduler = (torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5) for optimizer in (steps, our_steps))
    update = truestep.Update(ours, our_steps, loss=cross_entropy, scheduler=our_scheduler)
    for seed in range(3):
        outcome = update([batch(4, seed), batch(3, seed + 9)])
        assert outcome.lr == tuple(rate * 0.5**seed for rate in (1e-2, 0.1, 1e-2))
        by_hand(hand, steps, [batch(4, seed), batch(3, seed + 9)])
        scheduler.step()
    assert same(weights(hand), weights(ours))


def test_a_group_that_is_added_later_is_stepped_from_then_on() -> None:
    hand, ours = mlp(), mlp()
    steps, our_steps = (torch.optim.SGD(m[2].parameters(), lr=0.1, momentum=0.9) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=cross_entropy, clip=truestep.ClipNorm(1e6))
    for seed in range(4):
        if seed == 2:
            for model, optimizer in ((hand, steps), (ours, our_steps)):
                optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.01})
        norm = update([batch(4, seed), batch(3, seed + 9)]).grad_norm
        hand.zero_grad()  # the optimizer's own zero_grad leaves what it does not hold
        by_hand(hand, steps, [batch(4, seed), batch(3, seed + 9)])
        held = [p.grad.flatten() for group in steps.param_groups for p in group["params"]]
        assert norm == pytest.approx(torch.cat(held).double().norm().item(), rel=4 * 2.0**-24)  # blocks below 64 elements
        assert (ours[0].weight.grad is None) == (seed < 2)
    assert same(weights(hand), weights(ours))


def test_a_frozen_part_stays_whether_the_optimizer_holds_it_or_not() -> None:
    for held in (True, False):
        hand, ours = mlp(), mlp()
        for model in (hand, ours):
            model[0].requires_grad_(False)
        steps, our_steps = (
            torch.optim.AdamW(m.parameters() if held else m[2].parameters(), weight_decay=0.1) for m in (hand, ours)
        )
        update = truestep.Update(ours, our_steps, loss=cross_entropy)
        for seed in range(2):
            assert update([batch(4, seed)]).completed
            by_hand(hand, steps, [batch(4, seed)])
        assert same(weights(hand), weights(ours))
        assert same(weights(mlp()[0]), weights(ours[0]))


def test_layers_may_be_unfrozen_one_by_one_and_frozen_again() -> None:
    hand, ours = mlp(), mlp()
    steps, our_steps = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (hand, ours))
    plan = [(False, True), (True, True), (True, False), (True, True)]
    for model in (hand, ours):
        model[0].requires_grad_(False)
    update = truestep.Update(ours, our_steps, loss=cross_entropy)
    for seed, trains in enumerate(plan):
        for model in (hand, ours):
            for layer, wanted in zip((model[0], model[2]), trains, strict=True):
                layer.requires_grad_(wanted)
        before = everything(update)
        assert not update([batch(4, seed), poisoned(batch(3))]).completed
        assert same(before, everything(update))
        assert update([batch(4, seed), batch(3, seed + 9)]).completed
        by_hand(hand, steps, [batch(4, seed), batch(3, seed + 9)])
        assert same(weights(hand), weights(ours))
        assert same(optimizer_state(steps), optimizer_state(our_steps))


class Branches(nn.Module):
    """One of two heads, by the first label of the microbatch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk, self.heads = nn.Linear(4, 4), nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)])

    def forward(self, x: Tensor, head: int) -> Tensor:
        return self.heads[head](self.trunk(x))


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
def test_a_branch_that_some_microbatches_leave_out_gets_the_gradient_of_the_others(policy: str) -> None:
    def loss(model: nn.Module, data: Batch) -> Tensor:
        return F.cross_entropy(model(data[0], len(data[1]) % 2), data[1])

    hand, ours = Branches(), Branches()
    steps, our_steps = (torch.optim.AdamW(m.parameters(), lr=1e-2, weight_decay=0.1) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=loss, policy=policy)
    for sizes in ([4, 3], [4, 2], [3, 5, 1], [3, 4]):  # both heads, the first, the second, both
        window = [batch(size, seed) for seed, size in enumerate(sizes)]
        assert update(window).completed
        by_hand(hand, steps, window, loss, dtype=torch.bfloat16 if policy == "bf16" else None)
        assert same(weights(hand), weights(ours))
        assert same(optimizer_state(steps), optimizer_state(our_steps))


@pytest.mark.parametrize("second", [lambda m: m[2].parameters(), lambda m: m.parameters()])
def test_two_updates_of_one_model_step_their_own_parameters_in_turn(second: Callable[[nn.Module], object]) -> None:
    """Shared ones included: each attempt starts without a gradient and leaves none to the other."""
    hand, ours = mlp(), mlp()
    both = [[torch.optim.SGD(m.parameters(), lr=0.1), torch.optim.AdamW(second(m), lr=1e-2)] for m in (hand, ours)]
    updates = [truestep.Update(ours, optimizer, loss=cross_entropy) for optimizer in both[1]]
    for seed in range(4):
        hand.zero_grad()
        by_hand(hand, both[0][seed % 2], [batch(4, seed), batch(2, seed + 9)])
        assert updates[seed % 2]([batch(4, seed), batch(2, seed + 9)]).completed
        assert same(weights(hand), weights(ours))


def test_attempts_of_two_updates_may_be_open_together() -> None:
    trunk, head, by_trunk, by_head = mlp(), nn.Linear(3, 3), mlp(), nn.Linear(3, 3)
    by_head.load_state_dict(head.state_dict())
    updates = [truestep.Update(m, torch.optim.SGD(m.parameters(), lr=0.1), loss=cross_entropy) for m in (trunk, head)]
    x, y = batch(4)
    with updates[0].attempt() as first, updates[1].attempt() as second:
        second.backward(F.cross_entropy(head(trunk(x).detach()), y), 4)
        first.backward(F.cross_entropy(head(trunk(x)), y), 4)
    assert first.outcome.completed
    assert second.outcome.completed
    F.cross_entropy(by_head(by_trunk(x)), y).backward()
    for m in (by_trunk, by_head):
        torch.optim.SGD(m.parameters(), lr=0.1).step()
    assert same(weights(by_trunk) + weights(by_head), weights(trunk) + weights(head))


class Adapted(nn.Module):
    """A frozen layer in bfloat16 with a float32 adapter of low rank beside it (Hu et al. 2021)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.base = nn.Linear(4, 3).to(torch.bfloat16).requires_grad_(False)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x.to(torch.bfloat16)).float() + self.up(self.down(x)).float()


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
def test_float32_adapters_beside_frozen_bfloat16_weights_train_as_by_hand(policy: str) -> None:
    hand, ours = Adapted(), Adapted()
    steps, our_steps = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=cross_entropy, policy=policy)
    for seed in range(3):
        window = [batch(4, seed), batch(2, seed + 9)]
        assert update(window).completed
        by_hand(hand, steps, window, dtype=torch.bfloat16 if policy == "bf16" else None)
    assert same(weights(hand), weights(ours))
