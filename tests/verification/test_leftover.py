"""What was not zeroed is what a parameter's first gradient is added to, and no later one."""

import torch
from torch import nn

from truestep.verification.leftover import Leftover


def backward(model):
    model(torch.ones(4, 3)).sum().backward()


def linear():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def test_it_is_what_stood_there_at_the_first_gradient():
    model = linear()
    backward(model)
    before = {name: p.grad.clone() for name, p in model.named_parameters()}
    with Leftover(dict(model.named_parameters())) as left:
        backward(model)
        backward(model)
    assert left.gradients.keys() == before.keys()
    assert all(torch.equal(left.gradients[name], before[name]) for name in before)


def test_what_is_zeroed_before_the_first_gradient_is_not_left_whenever_that_comes():
    model = linear()
    backward(model)
    with Leftover(dict(model.named_parameters())) as left:
        model.weight.grad = None
        model.weight.sum().backward()  # the bias has its first gradient later
        model.bias.grad.zero_()
        backward(model)
    assert left.gradients == {}


def test_a_hook_goes_once_it_has_told_and_none_is_left_behind():
    model = linear()
    backward(model)
    with Leftover(dict(model.named_parameters())):
        assert len(model.weight._backward_hooks) == len(model.bias._backward_hooks) == 1
        model.weight.sum().backward()
        assert not model.weight._backward_hooks
        assert len(model.bias._backward_hooks) == 1
    assert not model.bias._backward_hooks
