"""What is caught at the optimizer is what its step uses."""

import copy

import pytest
import torch
from torch import nn

from truestep.engine.parameters import names_of
from truestep.verification.arrival import Arrival


def linear():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def arrival_of(model, *optimizers):
    return Arrival(optimizers, lambda: names_of(model, *optimizers), known={})


def backward(model, factor=1.0):
    (model(torch.ones(4, 3)).square().mean() * factor).backward()


def test_it_is_the_gradient_as_the_step_finds_it_and_not_as_the_step_leaves_it():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    backward(model)
    wanted = {name: p.grad.clone() for name, p in model.named_parameters()}
    with arrival_of(model, optimizer) as arrival:
        optimizer.step()
        optimizer.zero_grad()
    assert arrival.stepped
    assert arrival.gradients.keys() == wanted.keys()
    assert all(torch.equal(arrival.gradients[name], wanted[name]) for name in wanted)


def test_a_change_by_a_hook_before_the_step_is_seen():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: [p.grad.mul_(0.5) for p in model.parameters()] and None)
    backward(model)
    whole = model.bias.grad.clone()
    with arrival_of(model, optimizer) as arrival:
        optimizer.step()
    assert torch.equal(arrival.gradients["bias"], whole * 0.5)


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaled_gradient_is_divided_as_the_kernel_divides(fused):
    model, twin = linear(), linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(model(torch.ones(4, 3)).square().mean()).backward()
    with arrival_of(model, optimizer) as arrival:
        scaler.step(optimizer)
    backward(twin)
    for name, p in twin.named_parameters():
        assert torch.equal(arrival.gradients[name], p.grad)
        assert torch.equal(p.detach() - arrival.gradients[name], dict(model.named_parameters())[name].detach())


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_an_overflow_withholds_is_no_step(fused):
    model = linear()
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(model(torch.ones(4, 3)).mean() * float("inf")).backward()
    with arrival_of(model, optimizer) as arrival:
        scaler.step(optimizer)
    assert not arrival.stepped
    assert arrival.gradients == {}
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)


def test_a_closure_is_looked_at_after_its_first_evaluation():
    model = linear()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    seen = []

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(4, 3)).square().mean()
        loss.backward()
        seen.append(model.bias.grad.clone())
        return loss

    with arrival_of(model, optimizer) as arrival:
        optimizer.step(closure)
    assert len(seen) > 1
    assert arrival.evaluated
    assert torch.equal(arrival.gradients["bias"], seen[0])
    assert not torch.equal(seen[0], seen[-1])


def test_several_optimizers_each_give_theirs_and_one_that_is_left_out_is_told():
    model = nn.Sequential(linear(), nn.Linear(2, 1))
    one, other = (torch.optim.SGD(each.parameters(), lr=0.1) for each in model)
    model(torch.ones(4, 3)).mean().backward()
    with arrival_of(model, one, other) as arrival:
        one.step()
    assert arrival.steps == [1, 0]
    assert set(arrival.gradients) == {"0.weight", "0.bias"}


def test_a_second_step_is_counted_and_the_first_gradient_is_kept():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    backward(model)
    first = model.bias.grad.clone()
    with arrival_of(model, optimizer) as arrival:
        optimizer.step()
        optimizer.zero_grad()
        backward(model, factor=3.0)
        optimizer.step()
    assert arrival.steps == [2]
    assert torch.equal(arrival.gradients["bias"], first)


def test_a_subclass_that_calls_its_parents_step_steps_once():
    class Doubling(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    model = linear()
    optimizer = Doubling(model.parameters(), lr=0.1)
    backward(model)
    with arrival_of(model, optimizer) as arrival:
        optimizer.step()
    assert arrival.steps == [1]
    assert not arrival.stepping


def test_no_hook_is_left_behind():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    backward(model)
    with arrival_of(model, optimizer) as arrival:
        pass
    optimizer.step()
    assert not arrival.stepped
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_rows_that_a_sparse_gradient_does_not_store_are_0():
    model = nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.tensor([1, 1, 2])).sum().backward()
    with arrival_of(model, optimizer) as arrival:
        optimizer.step()
    assert arrival.gradients["weight"].tolist() == [[0, 0], [2, 2], [1, 1], [0, 0]]


def test_a_parameter_that_comes_to_the_optimizer_within_the_window_has_its_name_too():
    model = linear()
    optimizer = torch.optim.SGD([model.weight], lr=0.1)
    known = names_of(model, optimizer)
    model.register_parameter("late", nn.Parameter(torch.ones(())))
    with Arrival([optimizer], lambda: names_of(model, optimizer), known=known) as arrival:
        optimizer.add_param_group({"params": [model.late]})
        (model(torch.ones(4, 3)).sum() * model.late).backward()
        optimizer.step()
    assert set(arrival.gradients) == {"weight", "late"}
