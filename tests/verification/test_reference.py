"""The full batch in float32 and float64, from a state that stays as it is."""

import dataclasses

import pytest
import torch
from torch import nn

from truestep.engine.clip import ClipNorm, ClipValue
from truestep.engine.randomness import TorchRandomState
from truestep.engine.update import Update
from truestep.verification.draws import Draws
from truestep.verification.reference import clipped, drew_alike, references
from truestep.verification.subject import Full
from truestep.verification.subject_state import Snapshot
from truestep.verification.subject_update import subject_of_step, subject_of_update


def subject_of(model, loss=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return subject_of_step(
        lambda window: None, model=model, optimizer=optimizer, loss=loss or (lambda model, x: model(x).square().mean())
    )


def found_of(subject, full):
    return references(subject, full, subject.named().trained)


def full_of(*microbatches):
    return Full(list(microbatches), torch.cat(microbatches), None)


def test_float32_is_the_plain_loops_bit_for_bit_and_float64_lies_a_rounding_away():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)), torch.randn(12, 5)
    found = found_of(subject_of(model), full_of(*x.split(4)))
    model(x).square().mean().backward()
    for name, p in model.named_parameters():
        assert torch.equal(found.plain[name], p.grad)
        assert found.judge[name].dtype is torch.float64
        assert 0 < (found.judge[name] - p.grad).norm() < 1e-6 * p.grad.norm()


def test_nothing_is_left_behind_dtypes_gradients_buffers_and_random_state():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Dropout(0.5), nn.Linear(7, 2))
    model[0].weight.grad = torch.ones(7, 5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    drawn = torch.get_rng_state()
    found = found_of(subject_of(model), full_of(torch.randn(8, 5, generator=torch.Generator().manual_seed(1))))
    assert found.why_not is None
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    assert all(value.dtype is before[name].dtype for name, value in model.state_dict().items())
    assert torch.equal(model[0].weight.grad, torch.ones(7, 5))
    assert model[3].weight.grad is None


def test_a_loss_that_reaches_the_model_by_another_way_is_doubled_too():
    model = nn.Linear(3, 2)
    found = found_of(subject_of(model, loss=lambda _, x: model(x).square().mean()), full_of(torch.ones(4, 3)))
    assert found.why_not is None
    assert found.judge["weight"].dtype is torch.float64


def test_an_autocast_around_it_does_not_reach_inside():
    model = nn.Linear(3, 2)
    plain = found_of(subject_of(model), full_of(torch.rand(4, 3) + 0.1)).plain
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        torch.manual_seed(0)
        again = found_of(subject_of(model), full_of(torch.ones(4, 3))).plain
    bare = found_of(subject_of(model), full_of(torch.ones(4, 3))).plain
    assert torch.equal(again["weight"], bare["weight"])
    assert not torch.equal(plain["weight"], bare["weight"])


def test_what_is_float32_by_its_code_is_judged_by_float32_and_says_so():
    model = nn.Linear(3, 2)
    found = found_of(subject_of(model, loss=lambda model, x: model(x.float()).mean()), full_of(torch.ones(4, 3)))
    assert found.why_not is not None
    assert found.judge is found.plain
    assert model.weight.dtype is torch.float32


def test_a_parameter_that_the_loss_does_not_reach_is_not_there():
    model = nn.ModuleDict({"used": nn.Linear(3, 1), "idle": nn.Linear(3, 1)})
    found = found_of(subject_of(model, loss=lambda model, x: model["used"](x).mean()), full_of(torch.ones(4, 3)))
    assert set(found.plain) == {"used.weight", "used.bias"}


@pytest.mark.parametrize("clip", [ClipNorm(0.5), ClipValue(0.5)])
def test_a_clip_is_applied_to_a_copy(clip):
    gradients = {"a": torch.tensor([3.0, -0.1], dtype=torch.float64), "b": torch.tensor([4.0], dtype=torch.float64)}
    found = clipped(gradients, clip)
    assert gradients["b"].item() == 4.0
    norm = torch.cat(list(found.values())).norm().item()
    assert norm == pytest.approx(0.5 if isinstance(clip, ClipNorm) else (0.25 + 0.25 + 0.01) ** 0.5)
    assert clipped(gradients, None) is gradients
    assert clipped({}, clip) == {}


def test_a_loss_that_asserts_float32_is_judged_by_float32_and_says_so():
    def strict(model, x):
        assert x.dtype == torch.float32
        return model(x).mean()

    found = found_of(subject_of(nn.Linear(3, 2), loss=strict), full_of(torch.ones(4, 3)))
    assert found.why_not.startswith("AssertionError")
    assert found.judge is found.plain


def test_two_passes_have_drawn_alike_where_the_devices_generator_says_so_too():
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)
    first, second = torch.zeros(4, dtype=torch.uint8), torch.ones(4, dtype=torch.uint8)
    assert drew_alike(TorchRandomState(first, cpu, None), TorchRandomState(first, cpu, None))
    assert not drew_alike(TorchRandomState(first, cpu, None), TorchRandomState(second, cpu, None))
    assert drew_alike(TorchRandomState(first, cuda, second), TorchRandomState(first, cuda, second))
    assert not drew_alike(TorchRandomState(first, cuda, first), TorchRandomState(first, cuda, second))


@pytest.mark.parametrize("policy", ["fp32", "bf16-master", "bf16-pure"])
def test_a_snapshot_returns_to_the_weights_that_the_optimizer_steps_too(policy):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    update = Update(
        model, lambda params: torch.optim.SGD(params, lr=0.5), loss=lambda model, x: model(x).square().mean(), policy=policy
    )
    subject, full = subject_of_update(update, title="linear"), full_of(torch.ones(4, 3))
    start, before = Snapshot(subject.named().tensors, Draws.now(subject.device)), found_of(subject, full).judge
    subject.attempt(full.window)
    after = found_of(subject, full).judge
    with start():
        again = found_of(subject, full).judge
    assert all(torch.equal(again[name], before[name]) and not torch.equal(after[name], before[name]) for name in before)


def test_counts_are_taken_once_for_both_references_and_another_weight_is_asked_of_doubles_too():
    model, seen = nn.Linear(3, 2), []

    def summed(x):
        seen.append(x.dtype)
        return float(x.abs().sum())

    own = subject_of_step(
        lambda window: None,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, x: model(x).square().mean(),
        weight=summed,
    )
    full = full_of(torch.rand(4, 3) + 1, torch.rand(2, 3) + 1)
    assert not own.counts
    assert found_of(own, full).why_not is None
    assert seen == [torch.float32] * 2 + [torch.float64] * 2
    counting = dataclasses.replace(own, counts=True)
    seen.clear()
    assert found_of(counting, full).why_not is None
    assert seen == [torch.float32] * 2
    assert subject_of(model).counts
