"""Elements near a kink are counted by how near roundings reach."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from truestep.verification.kinks import Kinks

FLOAT32, BFLOAT16 = 2.0**-24, 2.0**-8


def watched(function, *args):
    kinks = Kinks()
    with kinks:
        function(*args)
    return kinks


def test_a_smooth_model_has_none():
    kinks = watched(lambda x: nn.functional.gelu(x).softmax(-1).sum(), torch.randn(8, 8))
    assert not kinks.any
    assert kinks.risk(BFLOAT16) == 0


def test_an_element_at_a_distance_is_at_risk_in_a_coarse_format_only():
    x = torch.tensor([1.0, -1.0, 1e-4, 1.0])
    kinks = watched(torch.relu, x)
    assert kinks.any
    assert kinks.risk(FLOAT32) == 0
    assert 0.5 < kinks.risk(BFLOAT16) <= 1


def test_elements_that_are_exactly_0_are_exact_in_every_format():
    assert watched(torch.relu, torch.tensor([1.0, 0.0, -1.0])).risk(BFLOAT16) == 0


def test_the_share_grows_as_the_root_of_the_roundoff():
    torch.manual_seed(0)
    kinks = watched(torch.relu, torch.randn(2_000_000))
    coarse, fine = kinks.risk(2.0**-4), kinks.risk(2.0**-8)
    assert coarse / fine == pytest.approx(4, rel=0.1)
    expected = 1 / math.sqrt(2 * math.pi) * 2.0**-4 / math.sqrt(3) * 2 / math.sqrt(2 * math.pi)  # density times mean |noise|
    assert coarse**2 == pytest.approx(expected / 0.5, rel=0.1)


SAMPLES = torch.full((1, 1, 2), 0.3, dtype=torch.float64)
MOVED = {
    "relu": F.relu,
    "relu6 at its lower kink": F.relu6,
    "relu6 at its upper kink": lambda x: F.relu6(x + 6.0),
    "hardtanh at its lower kink": lambda x: F.hardtanh(x - 1.0),
    "hardtanh at its upper kink": lambda x: F.hardtanh(x + 1.0),
    "leaky_relu": F.leaky_relu,
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.25, dtype=x.dtype)),
    "threshold": lambda x: F.threshold(x + 0.1, 0.1, 0.0),
    "hardswish": lambda x: F.hardswish(x + 3.0),
    "clamp on both sides": lambda x: (x + 2.0).clamp(-2.0, 2.0),
    "clamp from above": lambda x: x.clamp(max=0.0),
    "clamp_max": lambda x: torch.clamp_max(x, 0.0),
    "clamp by tensors": lambda x: x.clamp(torch.zeros(()), torch.ones(())),
    "amax": lambda x: x.view(-1, 2).amax(-1),
    "amin": lambda x: x.view(-1, 2).amin(-1),
    "max along a dimension": lambda x: x.view(2, -1).max(0).values,
    "min along a dimension": lambda x: x.view(2, -1).min(0).values,
    "max pool": lambda x: F.max_pool2d(x.view(1, 1, 64, 64), 2),
    "adaptive max pool": lambda x: F.adaptive_max_pool2d(x.view(1, 1, 64, 64), 30),
    "fractional max pool": lambda x: F.fractional_max_pool2d(x.view(1, 1, 64, 64), 2, 30, _random_samples=SAMPLES),
}


@pytest.mark.parametrize("name", MOVED)
def test_elements_that_a_rounding_really_moves_over_are_within_the_share(name):
    torch.manual_seed(0)
    function = MOVED[name]
    x = torch.randn(4096, dtype=torch.float64, requires_grad=True)
    y = (x + BFLOAT16 / math.sqrt(3) * torch.randn(4096)).detach().requires_grad_()  # one rounding of its size
    kinks = watched(function, x)
    one, other = (torch.autograd.grad(function(each).sum(), each)[0] for each in (x, y))
    assert 0 < (one - other).norm() / one.norm() <= kinks.risk(BFLOAT16) < 0.5


def test_a_max_pool_is_at_risk_where_two_are_nearly_the_largest():
    far = torch.tensor([[[[1.0, 0.5], [0.2, 0.1]]]])
    near = torch.tensor([[[[1.0, 0.9999], [0.2, 0.1]]]])
    pool = nn.MaxPool2d(2)
    assert watched(pool, far).any
    assert watched(pool, near).risk(BFLOAT16) > watched(pool, far).risk(BFLOAT16) == 0
    assert watched(pool, far).risk(FLOAT32) == watched(pool, near).risk(FLOAT32) == 0


NEAR = torch.tensor([1.0, 0.3, 0.9999, 0.2])


@pytest.mark.parametrize(
    ("options", "at_risk"),
    [
        ({"kernel_size": (1, 2), "stride": 1}, False),
        ({"kernel_size": (1, 2), "stride": 1, "dilation": (1, 2)}, True),
        ({"kernel_size": (1, 3), "stride": 1}, True),
        ({"kernel_size": (3, 3), "stride": 3, "padding": 1}, False),
        ({"kernel_size": (1, 5), "stride": 1, "padding": (0, 1)}, True),
        ({"kernel_size": 1, "stride": 2}, False),
        ({"kernel_size": (1, 3), "stride": (1, 3), "ceil_mode": True}, True),
        ({"kernel_size": (1, 6), "stride": (1, 4), "ceil_mode": True}, True),
    ],
)
def test_a_max_pool_is_looked_at_in_the_windows_that_it_has(options, at_risk):
    kinks = watched(nn.MaxPool2d(**options), NEAR.view(1, 1, 1, 4))
    assert kinks.any
    assert (kinks.risk(BFLOAT16) > 0) == at_risk


def test_a_max_pool_over_three_dimensions_and_a_maximum_of_one_element_are_looked_at_too():
    assert watched(nn.MaxPool3d((1, 1, 3)), NEAR.view(1, 1, 1, 1, 4)).risk(BFLOAT16) > 0
    assert watched(torch.max, torch.ones(())).risk(BFLOAT16) == 0
    assert watched(lambda x: x.amax(0), torch.ones(1, 4)).risk(BFLOAT16) == 0
    assert watched(torch.maximum, torch.zeros(()), torch.ones(3)).risk(BFLOAT16) == 0


def fractional(function, *, kernel, to, planes, dimensions):
    samples = torch.rand(planes, dimensions, dtype=torch.float64).view(1, planes, dimensions)
    return lambda x: function(x, kernel, to, return_indices=True, _random_samples=samples)


POOLS = {
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (1, 2, 5, 7)),
    "adaptive to a divisor": (lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), (1, 2, 6, 4)),
    "adaptive to windows that overlap": (lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True), (2, 2, 5, 7)),
    "adaptive to more than there are": (lambda x: F.adaptive_max_pool2d(x, (7, 2), return_indices=True), (1, 1, 3, 5)),
    "adaptive without a batch": (lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), (2, 5, 4)),
    "adaptive along one dimension": (lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True), (2, 2, 7)),
    "adaptive over three dimensions": (lambda x: F.adaptive_max_pool3d(x, (2, 1, 3), return_indices=True), (1, 2, 3, 2, 5)),
    "fractional": (fractional(F.fractional_max_pool2d, kernel=(2, 3), to=(3, 4), planes=3, dimensions=2), (1, 3, 7, 9)),
    "fractional to one": (fractional(F.fractional_max_pool2d, kernel=2, to=1, planes=2, dimensions=2), (1, 2, 4, 3)),
    "fractional over three": (
        fractional(F.fractional_max_pool3d, kernel=(2, 1, 3), to=(2, 3, 2), planes=2, dimensions=3),
        (1, 2, 5, 4, 6),
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_the_runner_up_is_looked_for_in_the_windows_that_torch_takes(name):
    torch.manual_seed(0)
    pool, shape = POOLS[name]
    elements = math.prod(shape)
    x = torch.randperm(elements).double().view(shape)
    [(distances, _, _)] = watched(pool, x)._met
    most = pool(x)[0].flatten()
    second = torch.full_like(most, -math.inf)
    for place in range(elements):  # what is lifted above all is the largest of every window that it lies in
        lifted = x.clone()
        lifted.view(-1)[place] = elements
        inside = (pool(lifted)[0].flatten() == elements) & (most != x.view(-1)[place])
        second[inside] = second[inside].clamp(min=float(x.view(-1)[place]))
    size = (2 * x.square().mean()).sqrt()
    assert torch.equal(distances.flatten(), ((most - second) / size).float())
