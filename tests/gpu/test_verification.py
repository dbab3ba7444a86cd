"""A verification on a CUDA device: tf32 is held to what tf32 explains, and gaps and marks are those of the same numbers here."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from truestep.verification.gap import gaps
from truestep.verification.subject_join import full_of, mark_of
from truestep.verification.verify import verify

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


@pytest.mark.parametrize("policy", ["fp32", "tf32", "bf16", "fp16"])
def test_an_update_is_the_full_batchs_under_every_policy(policy: str) -> None:
    result = verify("digits", policy=policy, device="cuda", attempts=4)
    assert result.passed, result
    assert ("tf32" in result.criterion[0]) == (policy == "tf32")


def test_a_loop_of_ones_own_is_held_to_the_arithmetic_that_it_allowed() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 8)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    windows = [[torch.randn(32, 256, device="cuda") for _ in range(2)] for _ in range(3)]

    def step(window: list[torch.Tensor]) -> None:
        optimizer.zero_grad()
        for x in window:
            (model(x).square().mean() / len(window)).backward()
        optimizer.step()

    before = torch.get_float32_matmul_precision()
    try:
        for name, said in (("high", "tf32"), ("highest", "float32")):
            torch.set_float32_matmul_precision(name)
            result = verify(step, windows, model=model, optimizer=optimizer, loss=lambda model, x: model(x).square().mean())
            assert result.passed, result
            assert said in result.criterion[0]
    finally:
        torch.set_float32_matmul_precision(before)


def test_gaps_are_those_of_the_same_numbers_on_the_cpu() -> None:
    torch.manual_seed(0)
    shapes = {"a": (3,), "none": (0,), "b": (2, 2), "large": (600, 600), "c": ()}
    a, f, r = ({name: torch.randn(shape) for name, shape in shapes.items()} for _ in range(3))
    r = {name: value.double() for name, value in r.items()}
    del a["b"]
    here, there = (gaps(*({n: v.to(device) for n, v in each.items()} for each in (a, f, r))) for device in ("cpu", "cuda"))
    for one, other in zip(here, there, strict=True):
        assert one.name == other.name
        for field in ("reference", "arrived", "error", "plain", "plain_error"):
            found, wanted = getattr(other, field), getattr(one, field)
            assert found == (None if wanted is None else pytest.approx(wanted, rel=1e-12)), (one.name, field)


def test_a_window_has_the_mark_of_the_same_numbers_on_the_cpu() -> None:
    window = [(torch.arange(6.0).view(2, 3), torch.tensor([True, False])), (torch.ones(2, 3), torch.tensor([True, True]))]
    on_device = [tuple(part.cuda() for part in microbatch) for microbatch in window]
    assert mark_of(full_of(on_device)) == mark_of(full_of(window))
