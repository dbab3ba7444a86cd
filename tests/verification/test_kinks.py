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
