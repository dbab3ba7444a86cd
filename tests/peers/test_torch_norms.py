"""torch's float32 norms and clips are off in long tensors, overflow in large ones, spread an infinity as NaN (torch 2.14.1)."""

import math

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD

import truestep

LONG = 30_000_000
# A block's square is off by at most 4096 roundings of 2^-24 each in the worst order of summing, its root by half of that;
# the root, the factor and the product add less than 2^-22. Vector units sum in shorter rows: 1e-6 is typical.
BOUND = 4096 * 2.0**-24 / 2 + 2.0**-22


def constant():
    return torch.full((LONG,), 1e-3)


def normal():
    return torch.randn(LONG, generator=torch.Generator().manual_seed(0))


def in_float64(tensor):
    return torch.linalg.vector_norm(tensor, dtype=torch.float64).item()


@pytest.mark.parametrize(("gradient", "off_by"), [(constant, 0.0159), (normal, 0.00168)])
def test_float32_norms_of_30_million_elements_are_off_there_and_within_the_bound_here(line, make_update, gradient, off_by):
    gradient = gradient()
    true = in_float64(gradient)
    parameter = nn.Parameter(torch.empty(LONG))
    parameter.grad = gradient.clone()
    norms = (*torch._foreach_norm([gradient]), torch.linalg.vector_norm(gradient), clip_grad_norm_([parameter], 1.0))
    # A partial sum that has grown rounds what is added to its own last place: in these two, mostly down.
    assert [1.0 - norm.item() / true for norm in norms] == pytest.approx([off_by] * 3, rel=0.2)
    assert in_float64(parameter.grad) == pytest.approx(1.0 / (1.0 - off_by), rel=0.2 * off_by)  # beyond the limit of 1
    del parameter

    ours = line(LONG)
    outcome = make_update(ours, clip=truestep.ClipNorm(1.0))([gradient])
    assert outcome.grad_norm == pytest.approx(true, rel=BOUND)
    assert in_float64(ours.reached()) == pytest.approx(1.0, rel=BOUND)


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("tensors", [1, 2])
def test_clipping_3e20_and_4e20_zeroes_the_gradient_there(foreach, tensors):
    parameters = [nn.Parameter(torch.zeros(2 // tensors)) for _ in range(tensors)]
    for parameter, part in zip(parameters, torch.tensor([3e20, 4e20]).chunk(tensors), strict=True):
        parameter.grad = part.clone()
    # Both its norms square in float32, and 9e40 is beyond it; the limit over an infinite norm is 0.
    assert math.isinf(clip_grad_norm_(parameters, 1.0, foreach=foreach))
    assert all(not parameter.grad.any() for parameter in parameters)


def test_clipping_3e20_and_4e20_gives_06_and_08_here(line, make_update):
    ours = line(2)
    outcome = make_update(ours, policy="fp32", clip=truestep.ClipNorm(1.0))([torch.tensor([3e20, 4e20])])
    # The two inputs are rounded to float32, then the factor and each product: four roundings of 2^-24.
    assert outcome.grad_norm == pytest.approx(5e20, rel=2.0**-22)
    assert ours.reached().tolist() == pytest.approx([0.6, 0.8], rel=2.0**-22)


WITH_INFINITY = torch.tensor([1.0, math.inf, 2.0])


def test_clipping_a_gradient_with_one_infinity_leaves_0_nan_0_there_and_the_next_step_writes_it(line, slope, make_update):
    theirs = line(3)
    optimizer = SGD(theirs.parameters(), lr=1.0)
    theirs.weight.grad = WITH_INFINITY.clone()
    clip_grad_norm_(theirs.parameters(), 1.0)
    assert torch.equal(theirs.weight.grad.nan_to_num(7.0), torch.tensor([0.0, 7.0, 0.0]))
    optimizer.step()
    assert theirs.weight[1].isnan()

    # The same gradient from finite inputs: the root's derivative at 0 is infinite.
    def root(model, slopes):
        return slope(model, slopes) + model.weight[1].sqrt()

    ours = line(3)
    outcome = make_update(ours, loss=root, policy="fp32", clip=truestep.ClipNorm(1.0))([torch.tensor([1.0, 0.0, 2.0])])
    assert (outcome.skip.reason, outcome.skip.place) == (truestep.Reason.UNDEFINED, "weight")
    assert torch.equal(ours.reached(), torch.zeros(3))
