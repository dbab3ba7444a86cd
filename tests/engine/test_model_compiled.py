"""Compiled models and losses: the bits of the compiled loop by hand, restored buffers, and diagnoses that find their way in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import truestep
from tests.engine.loops import Batch, batch, by_hand, cross_entropy, everything, poisoned, same, weights
from tests.profile import FULL

BACKEND = "aot_eager"  # traced forward and backward as inductor's, without its 20 seconds of C++


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))


def compiled() -> nn.Module:
    return torch.compile(network(), backend=BACKEND)


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
def test_a_compiled_model_trains_bit_for_bit_as_by_hand(policy: str) -> None:
    hand, ours = compiled(), compiled()
    steps, our_steps = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=cross_entropy, policy=policy)
    for seed in range(3):
        window = [batch(4, seed), batch(4, seed + 9)]
        outcome = update(window)
        by_hand(hand, steps, window, dtype=torch.bfloat16 if policy == "bf16" else None)
    assert outcome.completed
    assert outcome.weight_check.startswith("equals the loss's denominator")
    assert same(weights(hand), weights(ours))
    assert same([b.detach() for b in hand.buffers()], [b.detach() for b in ours.buffers()])


@pytest.mark.filterwarnings("ignore:Profiler function")
@pytest.mark.parametrize("fused", [False, True])
def test_a_compiled_step_steps_bit_for_bit_as_by_hand(fused: bool) -> None:
    hand, ours = network(), network()
    steps, our_steps = (torch.optim.AdamW(m.parameters(), lr=1e-2, fused=fused) for m in (hand, ours))
    for optimizer in (steps, our_steps):
        optimizer.step = torch.compile(optimizer.step, backend=BACKEND)
    update = truestep.Update(ours, our_steps, loss=cross_entropy)
    for seed in range(3):
        window = [batch(4, seed), batch(4, seed + 9)]
        assert update(window).completed
        by_hand(hand, steps, window)
    assert same(weights(hand), weights(ours))
    before = everything(update)
    assert not update([poisoned(batch(4))]).completed
    assert same(before, everything(update))


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("completed_before", [0, 1])
def test_a_skip_leaves_a_compiled_model_as_it_was_and_names_the_input(in_place: bool, completed_before: int) -> None:
    model = network()
    if in_place:
        model.compile(backend=BACKEND)
    else:
        model = torch.compile(model, backend=BACKEND)
    update = truestep.Update(model, torch.optim.AdamW(model.parameters(), lr=1e-2), loss=cross_entropy)
    for seed in range(completed_before):
        assert update([batch(4, seed)]).completed
    before = everything(update)
    outcome = update([batch(4, 7), poisoned(batch(4, 8))])
    assert (outcome.skip.reason, outcome.skip.place) == (truestep.Reason.INPUT, "microbatch 1[0]")
    assert same(before, everything(update))


def test_a_module_of_a_compiled_model_is_found_by_name() -> None:
    plain = network()
    model = torch.compile(plain, backend=BACKEND)
    update = truestep.Update(model, torch.optim.AdamW(model.parameters(), lr=1e-2), loss=cross_entropy)
    assert update([batch(4)]).completed
    with torch.no_grad():
        plain[3].weight.fill_(3e38)
    before = everything(update)
    skip = update([batch(4)]).skip
    assert skip.reason is truestep.Reason.FORWARD
    assert skip.place.endswith("3")  # torch's own name for it begins with _orig_mod.
    assert "Linear" in skip.detail
    assert same(before, everything(update))
    with torch.no_grad():
        plain[3].weight.fill_(float("nan"))
    assert update([batch(4)]).skip.place.endswith("3.weight")


def test_a_compiled_loss_says_that_its_weight_was_not_checked_and_trains_as_by_hand() -> None:
    def loss(model: nn.Module, data: Batch) -> Tensor:
        return F.cross_entropy(model(data[0]), data[1])

    hand, ours = network(), network()
    steps, our_steps = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=torch.compile(loss, backend=BACKEND))
    hand_loss = torch.compile(loss, backend=BACKEND)
    for seed in range(2):
        window = [batch(4, seed), batch(4, seed + 9)]
        outcome = update(window)
        by_hand(hand, steps, window, hand_loss)
    assert outcome.weight_check.startswith("not checked: the graph does not tell (CompiledFunctionBackward")
    assert same(weights(hand), weights(ours))


@pytest.mark.skipif(not FULL, reason="ten seconds: the full profile runs it")
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch.compile reads it off every tensor that it meets
def test_an_update_that_is_compiled_as_a_whole_makes_the_same_updates() -> None:
    plain, ours = network(), network()
    updates = [truestep.Update(m, torch.optim.SGD(m.parameters(), lr=0.1), loss=cross_entropy) for m in (plain, ours)]
    updates[1] = torch.compile(updates[1], backend="eager")
    for sizes in ([3, 5], [2], [4, 6]):  # that become symbols
        for update in updates:
            assert update([batch(size, size) for size in sizes]).completed
    assert same(weights(plain), weights(ours))
