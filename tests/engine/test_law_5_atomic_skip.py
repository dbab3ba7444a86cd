"""Law 5: after a skip or an exception everything is as before but random state; a first attempt included."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import truestep
from tests.engine.loops import OPTIMIZERS, batch, cross_entropy, mlp, optimizer_state, poisoned, same, weights
from truestep.errors import GradientError, LossError, StateError, WeightError


class Counting(nn.Module):
    """Writes its buffers in every way that a forward can: in place, by rebinding, through .data, by BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.register_buffer("in_place", torch.zeros(2))
        self.register_buffer("rebound", torch.zeros(2))
        self.register_buffer("by_data", torch.zeros(2))
        self.register_buffer("constant", torch.arange(3.0), persistent=False)
        self.register_buffer("absent", None)

    def forward(self, x: Tensor) -> Tensor:
        self.in_place.add_(1)
        self.rebound = self.rebound + 1
        self.by_data.data.add_(1)
        self.absent = x.detach().sum()[None]
        return self.last(self.norm(self.first(x)).relu()) + self.constant


def buffers(model: nn.Module) -> list[Tensor]:
    return [b.detach().clone() for b in model.buffers()]


def everything(update: truestep.Update) -> list[Tensor]:
    return weights(update.plan.model) + optimizer_state(update.optimizers[0]) + buffers(update.plan.model)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("completed_before", [0, 1, 3])
def test_a_skipped_attempt_leaves_everything_as_it_was(optimizer: str, completed_before: int) -> None:
    torch.manual_seed(0)
    model = Counting()
    steps = OPTIMIZERS[optimizer](model.parameters())
    update = truestep.Update(model, steps, loss=cross_entropy)
    for seed in range(completed_before):
        assert update([batch(4, seed)]).completed
    before = everything(update)
    assert not update([batch(4, 8), poisoned(batch(4, 9))]).completed
    assert same(before, everything(update))
    assert model.absent is None or completed_before
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("optimizer", ["fused momentum", "momentum"])
def test_a_skipped_first_attempt_leaves_momentum_as_if_it_had_not_been(optimizer: str) -> None:
    for seed in range(5):
        skipped, plain = mlp(seed), mlp(seed)
        updates = [
            truestep.Update(m, OPTIMIZERS[optimizer](m.parameters()), loss=cross_entropy, policy="fp16") for m in (skipped, plain)
        ]
        assert not updates[0]([poisoned(batch(4))]).completed
        for step in range(3):
            assert all(update([batch(4, step)]).completed for update in updates)
        assert same(weights(skipped), weights(plain))


def test_buffers_advance_when_an_attempt_completes() -> None:
    torch.manual_seed(0)
    model = Counting()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    update([batch(4), batch(4)])
    assert model.in_place.tolist() == model.rebound.tolist() == model.by_data.tolist() == [2.0, 2.0]
    assert model.norm.num_batches_tracked == 2


def test_random_state_advances_through_a_skip() -> None:
    def run(data: tuple[Tensor, Tensor]) -> Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
        truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=cross_entropy)([data])
        return torch.rand(3)

    assert torch.equal(run(batch(4)), run(poisoned(batch(4))))


class Interruption(BaseException):
    """Not an Exception: a Ctrl-C is not one either."""


def raising(error: BaseException) -> Callable[..., Tensor]:
    def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
        if data[0].isnan().any():
            model(data[0])
            raise error
        return cross_entropy(model, data)

    return loss


@pytest.mark.parametrize("error", [ValueError("from the loss"), Interruption()])
@pytest.mark.parametrize("completed_before", [0, 2])
def test_an_exception_in_the_block_leaves_everything_as_it_was(error: BaseException, completed_before: int) -> None:
    torch.manual_seed(0)
    model = Counting()
    steps = torch.optim.AdamW(model.parameters())
    update = truestep.Update(model, steps, loss=raising(error), policy="fp16")
    for seed in range(completed_before):
        update([batch(4, seed)])
    before, counts, scale = everything(update), update.counts, update.scale
    with pytest.raises(type(error)):
        update([batch(4), poisoned(batch(4))])
    assert same(before, everything(update))
    assert (update.counts, update.scale) == (counts, scale)
    assert all(p.grad is None for p in model.parameters())
    assert update([batch(4)]).completed


@pytest.mark.parametrize(
    ("loss", "error"),
    [
        (lambda model, data: 1.0, LossError),
        (lambda model, data: model(data[0]), LossError),
        (lambda model, data: cross_entropy(model, data).detach(), LossError),
        (lambda model, data: nn.functional.cross_entropy(model(data[0]).repeat(2, 1), data[1].repeat(2)), WeightError),
        (lambda model, data: cross_entropy(mlp(), data), GradientError),
    ],
)
def test_a_loss_that_cannot_be_used_is_refused_and_nothing_has_happened(loss: Callable[..., Tensor], error: type) -> None:
    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss)
    before = weights(model)
    with pytest.raises(error):
        update([batch(4)])
    assert same(before, weights(model))
    assert update.counts == truestep.Counts()


def test_an_attempt_has_an_order() -> None:
    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    with pytest.raises(StateError, match="no backward"), update.attempt(total=4):
        pass
    with update.attempt(total=4) as attempt:
        with pytest.raises(StateError, match="open"):
            _ = attempt.outcome
        with pytest.raises(StateError, match="open already"), update.attempt(total=4):
            pass
        attempt.backward(cross_entropy(model, batch(4)), 4)
    with pytest.raises(StateError, match="over"):
        attempt.backward(cross_entropy(model, batch(4)), 4)
    assert attempt.outcome.completed
    with pytest.raises(ValueError, match="left by it"), update.attempt(total=4) as attempt:
        raise ValueError("left by it")
    with pytest.raises(StateError, match="abandoned"):
        _ = attempt.outcome


def test_gradients_that_stood_there_before_do_not_count() -> None:
    model, clean = mlp(), mlp()
    for p in model.parameters():
        p.grad = torch.full_like(p, 1e9)
    for m in (model, clean):
        truestep.Update(m, torch.optim.SGD(m.parameters(), lr=0.1), loss=cross_entropy)([batch(4)])
    assert same(weights(model), weights(clean))


def test_a_backward_that_reaches_another_optimizers_parameters_leaves_nothing_there() -> None:
    generator, critic = nn.Linear(4, 4), nn.Linear(4, 1)
    critic.weight.grad = torch.ones_like(critic.weight)
    update = truestep.Update(
        generator, torch.optim.SGD(generator.parameters(), lr=0.1), loss=lambda model, x: -critic(model(x)).mean()
    )
    assert update([torch.randn(4, 4)]).completed
    assert critic.weight.grad.eq(1).all()
    assert critic.bias.grad is None


class Copies(TorchDispatchMode):
    """Counts how often each of `watched` is copied from."""

    def __init__(self, watched: dict[str, Tensor]) -> None:
        super().__init__()
        self.names = {tensor.data_ptr(): name for name, tensor in watched.items()}
        self.seen: dict[str, int] = dict.fromkeys(watched, 0)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in ("clone", "copy_", "_foreach_copy_"):
            for source in tree_leaves(args if name == "clone" else args[1]):
                if isinstance(source, Tensor) and source.data_ptr() in self.names:
                    self.seen[self.names[source.data_ptr()]] += 1
        return func(*args, **(kwargs or {}))


class Keeping(nn.Module):
    """A large table that it reads, a count that it writes, and BatchNorm's statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.register_buffer("table", torch.linspace(0, 1, 6))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.last(self.norm(self.first(x)) + self.table)


def test_only_what_a_forward_writes_is_copied_in_every_attempt() -> None:
    torch.manual_seed(0)
    model = Keeping()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    per_attempt = []
    for seed in range(4):
        with Copies(dict(model.named_buffers())) as copies:
            assert update([batch(4, seed), batch(4, seed + 10)]).completed
        per_attempt.append(copies.seen)
    assert all(counts["table"] == 0 for counts in per_attempt[2:])
    assert sum(counts["table"] for counts in per_attempt) <= 2
    for written in ("count", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"):
        assert [counts[written] for counts in per_attempt[2:]] == [1, 1]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_with_skips_and_interruptions_ends_as_the_run_without_them(optimizer: str) -> None:
    """Skips and an exception at the first attempt and between others: weights, optimizer, buffers and average to the bit."""

    def run(disturbed: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = Counting()
        update = truestep.Update(model, OPTIMIZERS[optimizer](model.parameters()), loss=raising(Interruption()), policy="fp16")
        ema = truestep.Ema(update, decay=0.5)
        for seed in range(4):
            if disturbed:
                x, y = batch(4)
                ema.after(update([batch(4), (x * math.inf, y)]))
                with pytest.raises(Interruption):
                    update([batch(4), poisoned(batch(4))])
                with pytest.raises(KeyError), update.attempt(total=4) as attempt:
                    with attempt.autocast():
                        loss = cross_entropy(model, batch(4))
                    attempt.backward(loss, 4)
                    raise KeyError
            outcome = update([batch(4, seed), batch(2, seed)])
            assert outcome.completed
            ema.after(outcome)
        assert ema.completed == 4
        return everything(update) + list(ema.state_dict()["shadow"].values())

    assert same(run(disturbed=True), run(disturbed=False))
