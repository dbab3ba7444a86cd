"""Elements near a kink are counted by how near roundings reach."""

import math

import pytest
import torch
from torch import nn

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


@pytest.mark.parametrize("name", ["relu", "relu6", "leaky_relu", "hardtanh", "threshold"])
def test_elements_that_a_rounding_really_moves_over_are_within_the_share(name):
    torch.manual_seed(0)
    functions = {"threshold": lambda x: nn.functional.threshold(x, 0.1, 0.0)}
    function = functions.get(name, getattr(nn.functional, name))
    x = torch.randn(4096, dtype=torch.float64, requires_grad=True)
    y = x.detach().bfloat16().double().requires_grad_()
    kinks = watched(function, x)
    one, other = (torch.autograd.grad(function(each).sum(), each)[0] for each in (x, y))
    assert (one - other).norm() / one.norm() <= kinks.risk(BFLOAT16) < 0.3


def test_a_max_pool_is_at_risk_where_two_are_nearly_the_largest():
    far = torch.tensor([[[[1.0, 0.5], [0.2, 0.1]]]])
    near = torch.tensor([[[[1.0, 0.9999], [0.2, 0.1]]]])
    pool = nn.MaxPool2d(2)
    assert watched(pool, far).any
    assert watched(pool, far).risk(FLOAT32) == watched(pool, near).risk(FLOAT32) == 0
