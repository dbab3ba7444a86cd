"""Edges of narrow weights, of states and of steps that end halfway."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import truestep
from tests.engine.edges import Gan, batch, gan, linear, mse, sgd


def test_in_float32_of_one_update_leaves_the_weights_of_the_other():
    model, ug, _, _ = gan()
    before = model.D.weight.detach().clone()
    with ug.in_float32():
        pass
    assert torch.equal(model.D.weight, before)


def test_a_skip_of_one_update_leaves_the_weights_of_the_other():
    model, ug, _, x = gan(lambda m, x: (m.D(m.G(x)).mean() * 0).sqrt())  # its diagnosis looks in float32
    before = model.D.weight.detach().clone()
    assert not ug([x]).completed
    assert torch.equal(model.D.weight, before)


def test_a_second_update_of_one_model_starts_from_the_float32_weights():
    torch.manual_seed(0)
    model = Gan()
    original = model.D.weight.detach().clone()
    truestep.Update(model, lambda ps: sgd(ps[:2]), loss=lambda m, x: m.D(m.G(x)).mean(), policy="bf16-master")
    ud = truestep.Update(model, lambda ps: sgd(ps[2:]), loss=lambda m, x: m.D(x).mean(), policy="bf16-master")
    assert torch.equal(ud.weights()["D.weight"], original)


def test_channels_last_after_the_update_was_built_changes_nothing():
    def trained(late):
        torch.manual_seed(0)
        model = nn.Conv2d(4, 4, 3, bias=False)
        update = truestep.Update(
            model,
            lambda ps: torch.optim.AdamW(ps, lr=1e-2, fused=True),
            loss=lambda m, x: (m(x) * torch.arange(1, 5).view(1, 4, 1, 1)).mean(),
            policy="bf16-master",
        )
        if late:
            model.to(memory_format=torch.channels_last)
        x = torch.randn(8, 4, 5, 5, generator=torch.Generator().manual_seed(1))
        for _ in range(20):
            update([x])
        return update.weights()["weight"]

    assert (trained(False) - trained(True)).abs().max() < 1e-3


@pytest.mark.parametrize("then", ["evaluate", "save", "average"])
def test_weights_loaded_outside_are_not_lost_by_a_look_in_float32(then, tmp_path):
    pretrained = linear(5).state_dict()
    model = linear(0)
    update = truestep.Update(model, lambda ps: sgd(ps, 1e-3), loss=mse, policy="bf16-master")
    model.load_state_dict(pretrained)
    with pytest.raises(truestep.errors.StateError):
        if then == "evaluate":
            with update.in_float32():
                model(batch()[0])
        elif then == "save":
            truestep.Checkpoints(tmp_path).save(update)
        else:
            with truestep.Ema(update).applied():
                pass
        update([batch()])


def test_wgan_clipping_through_data_is_refused():
    model = linear()
    update = truestep.Update(model, sgd, loss=mse, policy="bf16-master")
    with pytest.raises(truestep.errors.StateError, match="were written"):
        for i in range(3):
            update([batch(i)])
            for p in model.parameters():
                p.data.clamp_(-0.01, 0.01)


@pytest.mark.parametrize("policy", ["bf16-master", "bf16-pure"])
def test_vector_to_parameters_in_float32_reaches_the_weights(policy):
    model = linear()
    update = truestep.Update(model, sgd, loss=mse, policy=policy)
    with update.in_float32():
        vector = nn.utils.parameters_to_vector(model.parameters())
        nn.utils.vector_to_parameters(torch.zeros_like(vector), model.parameters())  # assigns p.data
    assert update.weights()["weight"].abs().max() == 0


def test_masters_that_the_optimizer_moves_between_steps_reach_the_model():
    schedulefree = pytest.importorskip("schedulefree")
    model = linear()
    update = truestep.Update(model, lambda ps: schedulefree.AdamWScheduleFree(ps, lr=0.1), loss=mse, policy="bf16-master")
    optimizer = update.optimizers[0]
    optimizer.train()
    for i in range(5):
        update([batch(i)])
    optimizer.eval()
    with update.in_float32():
        model(batch()[0])
    optimizer.train()
    seen = []
    model.register_forward_pre_hook(lambda module, args: seen.append(module.weight.detach().clone()))
    wanted = update.weights()["weight"].bfloat16().clone()
    update([batch(9)])
    assert torch.equal(seen[0], wanted)


def test_masters_clamped_through_the_optimizers_groups_reach_the_model():
    model = linear()
    update = truestep.Update(model, sgd, loss=mse, policy="bf16-master")
    update([batch()])
    with torch.no_grad():
        for p in update.optimizers[0].param_groups[0]["params"]:
            p.clamp_(-0.01, 0.01)
    seen = []
    model.register_forward_pre_hook(lambda module, args: seen.append(module.weight.detach().abs().max().item()))
    update([batch(1)])
    assert seen[0] <= 0.0101


def test_an_update_is_not_copied():
    model = nn.Linear(1, 1, bias=False)
    update = truestep.Update(model, lambda ps: sgd(ps, 0.0), loss=lambda m, x: m(x).sum(), policy="bf16-pure")
    with pytest.raises(truestep.errors.StateError, match="is not copied"):
        copy.deepcopy(update)


@pytest.mark.parametrize("policy", ["fp16", "fp16-master"])
def test_a_state_without_a_loss_scale_does_not_switch_off_that_of_float16(policy):
    other = truestep.Update(m := linear(), sgd(m.parameters()), loss=mse)
    other([batch()])
    update = truestep.Update(linear(), sgd, loss=mse, policy=policy)
    with pytest.raises(truestep.errors.StateError, match="'none'"):
        update.load_state_dict(other.state_dict())
    assert update.scale.kind == "dynamic"


@pytest.mark.parametrize("policy", ["fp32", "bf16-master", "bf16-pure"])
def test_a_parameter_that_is_unfrozen_later_is_trained_under_every_policy(policy):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    model[0].requires_grad_(False)
    update = truestep.Update(model, lambda ps: sgd(ps, 0.5), loss=mse, policy=policy)
    update([batch()])
    before = model[0].weight.detach().clone()
    model[0].requires_grad_(True)
    update([batch(1)])
    assert not torch.equal(model[0].weight, before)


@pytest.mark.parametrize("policy", ["fp32", "bf16-master", "bf16-pure"])
def test_parameters_come_in_the_order_and_number_of_their_names(policy):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    model[0].weight.requires_grad_(False)
    names, shapes = [n for n, _ in model.named_parameters()], [p.shape for p in model.parameters()]
    given = []

    def optimizer(params):  # decay the weights, not the biases: by name, as everyone does
        given.extend(p.shape for p in params)
        decay = [p for n, p in zip(names, params, strict=True) if "weight" in n]
        rest = [p for n, p in zip(names, params, strict=True) if "weight" not in n]
        return torch.optim.AdamW([{"params": decay}, {"params": rest, "weight_decay": 0.0}])

    truestep.Update(model, optimizer, loss=mse, policy=policy)
    assert given == shapes


@pytest.mark.parametrize(
    "wrong",
    [
        {"optimizer": lambda ps: torch.optim.AdamW(ps, lr=-1.0)},
        {"clock": "epochs"},
        {"loss_is": "meen"},
        {"scale": "x"},
        {"scheduler": lambda o: 3},
    ],
)
def test_an_update_that_is_refused_leaves_the_model_as_it_was(wrong):
    model = linear()
    before = model.weight.detach().clone()
    with pytest.raises((truestep.errors.UsageError, ValueError)):
        truestep.Update(model, **{"optimizer": sgd, "loss": mse, "policy": "bf16-master"} | wrong)
    assert model.weight.dtype is torch.float32
    update = truestep.Update(model, sgd, loss=mse, policy="bf16-master")  # the notebook's second try
    assert torch.equal(update.weights()["weight"], before)


def test_an_exception_between_the_masters_step_and_their_weights_is_all_or_none(monkeypatch):
    model = linear()
    update = truestep.Update(model, sgd, loss=mse, policy="bf16-master")
    update([batch()])
    before = update.weights()["weight"].clone()

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(torch, "_foreach_copy_", interrupted)
        with pytest.raises(KeyboardInterrupt):
            update([batch(1)])
    if not torch.equal(update.weights()["weight"], before):  # it moved, and is not counted: then it is to refuse
        with pytest.raises(truestep.errors.StateError):
            update([batch(1)])


def test_moments_that_moved_without_weights_are_torn_even_where_the_first_parameter_is_frozen(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 3))
    update = truestep.Update(model, torch.optim.Adam(model.parameters(), lr=0.1, foreach=True), loss=mse)
    update([batch()])
    model[0].requires_grad_(False)

    def full(*args):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "_foreach_sqrt", full)  # Adam's own temporary copy; the moments have moved by then
        with pytest.raises(torch.OutOfMemoryError):
            update([batch(1)])
    with pytest.raises(truestep.errors.StateError):
        update([batch(1)])


def test_an_exception_before_anything_was_written_is_not_torn():
    model = linear()
    update = truestep.Update(model, lambda ps: torch.optim.AdamW(ps, lr=0.1), loss=mse, policy="bf16-pure")
    update([batch()])

    def interrupted(*args):
        raise KeyboardInterrupt

    handle = update.optimizers[0].register_step_pre_hook(interrupted)
    with pytest.raises(KeyboardInterrupt):
        update([batch(1)])
    handle.remove()
    assert update([batch(1)]).completed


@pytest.mark.parametrize("policy", ["fp32", "bf16", "bf16-master", "bf16-pure", "fp16-master"])
def test_what_is_not_finite_in_float32_either_is_not_told_to_be(policy):
    update = truestep.Update(linear(), sgd, loss=lambda m, x: (m(x) * 0).sqrt().mean(), policy=policy)
    skip = update([torch.randn(8, 4)]).skip
    assert skip is not None
    assert "in float32 it is finite" not in skip.detail


@pytest.mark.parametrize(("policy", "change"), [("bf16-master", "float"), ("bf16-master", "half"), ("bf16-pure", "float")])
def test_a_model_that_was_brought_to_another_format_is_refused_by_name(policy, change):
    model = linear()
    update = truestep.Update(model, sgd, loss=mse, policy=policy)
    update([batch()])
    getattr(model, change)()
    with pytest.raises(truestep.errors.PolicyError, match="have become"):
        update([batch(1)])


def test_an_optimizer_that_keeps_a_number_in_its_state_is_taken():
    class Counting(torch.optim.SGD):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.state["steps"] = 0

        def step(self, closure=None):
            self.state["steps"] += 1
            return super().step()

    m = linear()
    assert truestep.Update(m, Counting(m.parameters(), lr=0.1), loss=mse)([batch()]).completed


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64, torch.float16])
def test_a_frozen_parameter_in_another_format_is_left_alone(dtype):
    model = linear()
    model.codes = nn.Parameter(torch.zeros(3, dtype=dtype), requires_grad=False)  # quantized base weights, say
    assert truestep.Update(model, sgd, loss=mse, policy="bf16-master")([batch()]).completed


def test_freezing_everything_is_told_as_under_fp32():
    model = nn.Sequential(linear(0, 4, 4), linear())
    update = truestep.Update(model, lambda ps: sgd(ps[:2]), loss=mse, policy="bf16-master")
    update([batch()])
    model[0].requires_grad_(False)
    with pytest.raises(truestep.errors.OptimizerError):
        update([batch()])


def test_a_state_of_wrong_types_is_refused():
    update = truestep.Update(m := linear(), sgd(m.parameters()), loss=mse)
    state = update.state_dict()
    state["counts"]["attempts"] = "7"
    with pytest.raises(truestep.errors.StateError):
        update.load_state_dict(state)


def test_a_state_does_not_give_lbfgs_a_dynamic_scale():
    fp16 = truestep.Update(m := linear(), sgd(m.parameters()), loss=mse, policy="fp16")
    update = truestep.Update(m := linear(), torch.optim.LBFGS(m.parameters()), loss=mse)
    with pytest.raises(truestep.errors.StateError, match="'dynamic'"):
        update.load_state_dict(fp16.state_dict())


@pytest.mark.parametrize("policy", ["fp32", "bf16-master"])
def test_a_hook_of_the_users_sees_each_gradient(policy):
    model, seen = linear(), []
    update = truestep.Update(model, sgd, loss=mse, policy=policy)
    model.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.norm().item()))
    assert update([batch(), batch(1)]).completed


def test_all_three_states_can_be_loaded_in_one_block():
    model = linear()
    update = truestep.Update(model, sgd, loss=mse, policy="bf16-master")
    update([batch()])
    states = copy.deepcopy((model.state_dict(), update.optimizers[0].state_dict(), update.state_dict()))
    with update.in_float32():
        model.load_state_dict(states[0])
        update.optimizers[0].load_state_dict(states[1])
        update.load_state_dict(states[2])


@pytest.mark.parametrize("policy", ["fp32", "bf16", "bf16-master", "bf16-pure"])
def test_the_average_is_what_computes_inside_applied_under_an_autocast_of_the_users(policy):
    model = linear()
    update = truestep.Update(model, lambda ps: sgd(ps, 1.0), loss=mse, policy=policy)
    ema = truestep.Ema(update, 0.9)
    for i in range(5):
        ema.after(update([batch(i)]))
    x = batch()[0]
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16), ema.applied():
            right = model(x)
        with torch.autocast("cpu", torch.bfloat16):
            with update.in_float32():
                raw = model(x)
            with ema.applied():
                average = model(x)
            with update.in_float32():
                again = model(x)
    assert torch.equal(average, right)
    assert torch.equal(raw, again)
