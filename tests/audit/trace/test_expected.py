"""What should reach an optimizer, each backward by its own scale; and the shadow step that measures a damage."""

import math

import pytest
import torch

from truestep.audit.trace.expected import Expected
from truestep.audit.trace.shadow import shadow_step


def parameter(*gradient):
    made = torch.nn.Parameter(torch.zeros(len(gradient)))
    made.grad = torch.tensor(gradient)
    return made


def grown(held, parameters, added, scale):
    """A backward that adds to what stands there."""
    held.keep(parameters)
    for each, more in zip(parameters, added, strict=True):
        each.grad = torch.tensor(more) if each.grad is None else each.grad + torch.tensor(more)
    held.add(parameters, scale)


def test_each_backward_counts_by_its_own_scale():
    held, one = Expected(), parameter(0.0, 0.0)
    one.grad = None
    grown(held, [one], [(8.0, 0.0)], 8.0)
    grown(held, [one], [(0.0, 4.0)], 4.0)
    one.grad = torch.tensor([1.0, 1.0])
    judged = held.judge([one], 1.0)
    assert judged.agrees(1e-6)
    assert judged.expected == pytest.approx(math.sqrt(2))
    one.grad = torch.tensor([1.0, 0.5])  # the second unscaled by the first one's scale
    assert not held.judge([one], 1.0).agrees(0.01)


def test_what_an_optimizer_will_still_divide_by_is_divided_out():
    held, one = Expected(), parameter(0.0)
    one.grad = None
    grown(held, [one], [(8.0,)], 8.0)
    assert held.judge([one], 8.0).agrees(1e-6)


def test_a_clip_after_the_last_backward_is_expected_and_one_before_it_is_not():
    held, one = Expected(), parameter(0.0, 0.0)
    one.grad = None
    grown(held, [one], [(3.0, 4.0)], 1.0)
    held.clip("norm", 1.0, [one])
    one.grad = torch.tensor([0.6, 0.8])
    assert held.judge([one], 1.0).agrees(1e-5)
    grown(held, [one], [(0.0, 0.0)], 1.0)
    assert not held.judge([one], 1.0).agrees(0.01)


def test_a_clip_by_value_is_expected_element_by_element():
    held, one = Expected(), parameter(0.0, 0.0)
    one.grad = None
    grown(held, [one], [(3.0, 0.5)], 1.0)
    held.clip("value", 1.0, [one])
    one.grad = torch.tensor([1.0, 0.5])
    assert held.judge([one], 1.0).agrees(1e-6)


def test_what_is_not_finite_has_no_right_gradient():
    held, one = Expected(), parameter(0.0)
    one.grad = None
    grown(held, [one], [(math.inf,)], 1.0)
    assert held.judge([one], 1.0) is None
    assert Expected().judge([one], 1.0) is None


class Counting(torch.optim.SGD):
    """Draws, and counts in an attribute of its own."""

    def __init__(self, params):
        super().__init__(params, lr=0.5, momentum=0.9)
        self.calls = 0

    def step(self, closure=None):
        self.calls += 1
        torch.rand(1)
        return super().step(closure)


@pytest.mark.parametrize("make", [lambda p: torch.optim.AdamW(p, lr=0.1), Counting, lambda p: torch.optim.SGD(p, lr=0.1)])
@pytest.mark.parametrize("warm", [False, True])
def test_a_shadow_step_gives_the_right_update_and_takes_everything_back(make, warm):
    torch.manual_seed(0)
    one = torch.nn.Parameter(torch.randn(3))
    optimizer = make([one])
    if warm:
        one.grad = torch.randn(3)
        optimizer.step()
    one.grad = wrong = torch.randn(3)
    right = torch.randn(3)
    weights, random = one.detach().clone(), torch.get_rng_state()
    state = {name: torch.as_tensor(value).clone() for name, value in optimizer.state[one].items() if value is not None}
    calls = getattr(optimizer, "calls", None)

    ((held, moved),) = shadow_step(optimizer, [one], {id(one): right})

    assert held is one
    assert torch.equal(one, weights)
    assert one.grad is wrong
    assert torch.equal(torch.get_rng_state(), random)
    assert getattr(optimizer, "calls", None) == calls
    after = {name: torch.as_tensor(value) for name, value in optimizer.state.get(one, {}).items() if value is not None}
    assert after.keys() == state.keys()
    assert all(torch.equal(after[name], state[name]) for name in state)
    one.grad = right
    optimizer.step()
    assert torch.equal(one.detach() - weights, moved)
