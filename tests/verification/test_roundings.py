"""The formats that operations put out, counted while they run."""

import pytest
import torch
from torch import nn

from truestep.verification.roundings import FLOAT32, Counting


def counted(function, *, microbatches=1):
    counting = Counting()
    with counting:
        function()
    return counting.seen(microbatches=microbatches)


def test_the_coarsest_format_is_found_under_autocast_and_its_roundoff_follows():
    model = nn.Linear(4, 4)

    def forward():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(torch.ones(2, 4)).float().sum().backward()

    seen = counted(forward)
    assert (seen.format.name, seen.format.unit) == ("bfloat16", 2.0**-8)
    plain = counted(lambda: model(torch.ones(2, 4)).sum().backward())
    assert (plain.format.name, plain.format.unit, plain.format.smallest) == ("float32", 2.0**-24, 2.0**-149)


def test_operations_are_counted_for_one_microbatch_and_views_are_none():
    x = torch.ones(2, 2)
    one = counted(lambda: x.exp().exp().t().view(2, 2).detach())
    assert one.count == 2
    assert counted(lambda: [x.exp() for _ in range(6)], microbatches=3).count == 2
    assert counted(lambda: None).count == 1


def test_integers_and_what_runs_while_it_is_paused_round_nothing():
    assert counted(lambda: torch.arange(3) + 1).count == 1
    paused = Counting(paused=lambda: True)
    with paused:
        torch.ones(2).half().exp()
    assert paused.seen(microbatches=1).format == FLOAT32


def test_a_number_that_torch_holds_as_a_tensor_passes():
    x = torch.ones(2, requires_grad=True)
    loss = (x * 0.5).sum() * 0.0
    with Counting():
        assert loss.grad_fn._saved_other.detach().abs() == 0


@pytest.mark.parametrize(("name", "unit"), [("tf32", 2.0**-11), ("bf16", 2.0**-8), ("ieee", 2.0**-24)])
def test_a_float32_product_rounds_as_its_arithmetic_is_set_though_it_puts_out_float32(name, unit, arithmetic):
    model, filters = nn.Linear(4, 4), nn.Conv1d(1, 1, 2)
    with arithmetic("matmul", name):
        products = counted(lambda: model(torch.ones(2, 4)).exp().sum().backward())
        assert products.format.unit == unit
        assert products.count == 2 or name == "ieee"  # the product, and that of the weights' gradient
        assert counted(lambda: torch.ones(2).exp()).format == FLOAT32
        assert counted(lambda: filters(torch.ones(1, 1, 4)).sum().backward()).format == FLOAT32
    with arithmetic("conv", name):
        assert counted(lambda: filters(torch.ones(1, 1, 4)).sum().backward()).format.unit == unit
