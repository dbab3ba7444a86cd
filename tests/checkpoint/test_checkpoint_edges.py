"""Edges of what is saved: other updates, sparse tensors, numbers without a dimension, other layouts, torn steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import truestep
from tests.engine.edges import batch, gan, linear, mse, sgd
from truestep.engine import pure


class Scaled(nn.Module):
    """With a parameter of no dimension, as CLIP's logit_scale."""

    def __init__(self):
        super().__init__()
        self.inner, self.scale = nn.Linear(4, 3), nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return self.inner(x) * self.scale


def test_saving_one_update_saves_and_leaves_the_weights_of_the_other(tmp_path):
    model, ug, _, _ = gan()
    before = model.D.weight.detach().clone()
    path = truestep.Checkpoints(tmp_path).save(ug)
    saved = truestep.read_checkpoint(path).state["model"]["D.weight"]
    assert torch.equal(saved.bfloat16(), before)
    assert torch.equal(model.D.weight, before)


def test_a_target_network_that_no_optimizer_steps_is_left_alone(tmp_path):
    class Q(nn.Module):
        def __init__(self):
            super().__init__()
            self.online, self.target = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x):
            return self.online(x)

    torch.manual_seed(0)
    model = Q()
    update = truestep.Update(model, lambda ps: sgd(ps[:2]), loss=mse, policy="bf16-master")
    update([batch()])
    model.target.load_state_dict(model.online.state_dict())
    truestep.Checkpoints(tmp_path).save(update)
    assert torch.equal(model.target.weight, model.online.weight)


def test_a_restore_after_no_memory_while_rounding_is_narrow_again(monkeypatch, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    update = truestep.Update(model, lambda ps: torch.optim.AdamW(ps, lr=0.1), loss=mse, policy="bf16-pure")
    update([batch()])
    checkpoints = truestep.Checkpoints(tmp_path)
    checkpoints.save(update)
    rounded, calls = pure.stochastically_rounded, []

    def full(*args):
        calls.append(1)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return rounded(*args)

    with monkeypatch.context() as patch:
        patch.setattr(pure, "stochastically_rounded", full)
        with pytest.raises(torch.OutOfMemoryError):
            update([batch(1)])
    checkpoints.restore(update)
    assert update([batch(1)]).completed
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_a_part_that_never_takes_its_state_undoes_all_that_was_loaded(tmp_path):
    class Part:
        def state_dict(self):
            return {"a": 1}

        def load_state_dict(self, state):
            raise NotImplementedError("not yet")

    update = truestep.Update(m := linear(), sgd(m.parameters()), loss=mse)
    update([batch()])
    checkpoints = truestep.Checkpoints(tmp_path)
    checkpoints.save(update, part=Part())
    update([batch(1)])
    before = m.weight.detach().clone()
    with pytest.raises(truestep.errors.CheckpointError):
        checkpoints.restore(update, part=Part())
    assert torch.equal(m.weight, before)


@pytest.mark.parametrize(
    ("make", "optimizer"),
    [
        (Scaled, lambda ps: torch.optim.AdamW(ps, lr=1e-2)),
        (Scaled, lambda ps: torch.optim.AdamW(ps, lr=1e-2, fused=True)),
        (linear, lambda ps: torch.optim.NAdam(ps, lr=1e-2)),
        (linear, lambda ps: torch.optim.ASGD(ps, lr=1e-2)),
    ],
)
def test_bf16_pure_goes_on_bit_for_bit(make, optimizer, tmp_path):
    def begin():
        torch.manual_seed(0)
        model = make()
        return model, truestep.Update(model, optimizer, loss=mse, policy="bf16-pure")

    model, update = begin()
    for i in range(5):
        update([batch(i)])
    truestep.Checkpoints(tmp_path).save(update)
    again, resumed = begin()
    truestep.Checkpoints(tmp_path).restore(resumed)
    for i in range(200):
        update([batch(i)])
        resumed([batch(i)])
    assert all(map(torch.equal, model.parameters(), again.parameters()))


def test_a_model_with_a_sparse_buffer_can_be_saved(tmp_path):
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3)
            self.register_buffer("adjacency", torch.eye(8).to_sparse())

        def forward(self, x):
            return self.inner(torch.sparse.mm(self.adjacency, x))

    update = truestep.Update(m := Graph(), sgd(m.parameters()), loss=mse)
    update([batch()])
    truestep.Checkpoints(tmp_path).save(update)


def test_momentum_of_sparse_gradients_can_be_saved(tmp_path):
    m = nn.Embedding(10, 4, sparse=True)
    update = truestep.Update(m, torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9), loss=lambda m, x: m(x).square().mean())
    update([torch.tensor([1, 2])])
    truestep.Checkpoints(tmp_path).save(update)


def test_an_update_as_a_part_is_kept_whole(tmp_path):
    g, d = linear(0, 4, 4), linear(1, 4, 1)
    ug = truestep.Update(g, sgd(g.parameters()), loss=lambda m, x: -d(m(x)).mean())
    ud = truestep.Update(d, sgd(d.parameters()), loss=lambda m, x: m(x).mean())
    x = torch.randn(4, 4)
    ug([x]), ud([x])
    checkpoints = truestep.Checkpoints(tmp_path)
    checkpoints.save(ug, discriminator=ud)
    kept = d.weight.detach().clone()
    ud([x])
    checkpoints.restore(ug, discriminator=ud)
    assert torch.equal(d.weight, kept)


def test_a_numpy_number_is_a_plain_value(tmp_path):
    update = truestep.Update(m := linear(), sgd(m.parameters()), loss=mse)
    update([batch()])
    checkpoints = truestep.Checkpoints(tmp_path)
    checkpoints.save(update, best=np.float64(0.5))
    assert checkpoints.restore(update).parts["best"] == 0.5


def test_moments_saved_in_channels_last_are_right_in_a_contiguous_model(tmp_path):
    def begin(last):
        torch.manual_seed(0)
        model = nn.Conv2d(4, 4, 3, bias=False)
        if last:
            model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
        return truestep.Update(model, optimizer, loss=lambda m, x: (m(x) * torch.arange(1, 5).view(1, 4, 1, 1)).mean())

    x = torch.randn(8, 4, 5, 5, generator=torch.Generator().manual_seed(1))
    update = begin(True)
    for _ in range(5):
        update([x])
    truestep.Checkpoints(tmp_path).save(update)
    resumed = begin(False)
    truestep.Checkpoints(tmp_path).restore(resumed)
    for _ in range(5):
        update([x])
        resumed([x])
    assert (update.weights()["weight"] - resumed.weights()["weight"]).abs().max() < 1e-3


def test_a_torn_update_is_not_saved_over_a_whole_checkpoint(tmp_path):
    class Failing(torch.optim.SGD):
        fails = False

        def step(self, closure=None):
            super().step()
            if Failing.fails:
                raise RuntimeError("a kernel failed")

    update = truestep.Update(m := linear(), Failing(m.parameters(), lr=0.1), loss=mse)
    update([batch()])
    checkpoints = truestep.Checkpoints(tmp_path)
    checkpoints.save(update)
    whole = m.weight.detach().clone()
    Failing.fails = True
    with pytest.raises(RuntimeError):
        update([batch(1)])
    with pytest.raises(truestep.errors.StateError, match="ended a step halfway"):
        checkpoints.save(update)  # as a loop's `finally:` does
    checkpoints.restore(update)
    assert torch.equal(m.weight, whole)


class Running(nn.Module):
    """Divides by a running mean that its state leaves out."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("mean", torch.ones(()), persistent=False)

    def forward(self, x):
        with torch.no_grad():
            self.mean.lerp_(x.abs().mean(), 0.1)
        return self.inner(x / self.mean)


def test_buffers_that_a_models_state_leaves_out_go_on_too(tmp_path):
    def begin():
        torch.manual_seed(0)
        model = Running()
        return model, truestep.Update(model, sgd(model.parameters()), loss=mse)

    model, update = begin()
    for i in range(5):
        update([batch(i)])
    truestep.Checkpoints(tmp_path).save(update)
    again, resumed = begin()
    restored = truestep.Checkpoints(tmp_path).restore(resumed)
    assert restored is not None
    assert restored.missing == ()
    for i in range(5):
        update([batch(i + 5)])
        resumed([batch(i + 5)])
    assert torch.equal(model.mean, again.mean)
    assert torch.equal(model.inner.weight, again.inner.weight)
