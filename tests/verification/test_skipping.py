"""An attempt that made no step says why: by the loop's word, its loss scale, its data, or what it left in `.grad`."""

import pytest
import torch
from torch import nn

from truestep.verification.skipping import skipped
from truestep.verification.verify import verify

SAID = {"said": None, "scale": (None, None), "withheld": False, "finite": True, "parameters": []}


def holding(*values):
    p = nn.Parameter(torch.zeros(len(values)))
    p.grad = torch.tensor(values)
    return [p]


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"said": "backward overflow: finite below", "scale": (65536.0, 32768.0)}, "backward overflow at scale 65536"),
        ({"said": "non-finite parameter: fc.weight", "scale": (8.0, 8.0)}, "non-finite parameter"),
        ({"scale": (65536.0, 32768.0)}, "overflow at scale 65536"),
        ({"scale": (65536.0, 32768.0), "finite": False}, "the full batch's own gradient is not finite"),
        ({"scale": (8.0, 8.0), "withheld": True}, "a gradient that is not finite at scale 8"),
        ({"parameters": holding(1.0, torch.inf)}, "a gradient that is not finite"),
        ({"parameters": holding(1.0, 2.0)}, "no optimizer was stepped"),
        ({}, "no optimizer was stepped"),
    ],
)
def test_the_reason_is_what_is_known_of_it(known, reason):
    assert skipped(3, **{**SAID, **known}).reason == reason


def test_gradients_that_a_window_without_a_step_leaves_are_told():
    assert "still in .grad" in skipped(0, **{**SAID, "parameters": holding(1.0)}).detail
    assert skipped(0, **{**SAID, "parameters": holding(0.0)}).detail is None


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_an_overflow_of_a_hand_written_loop_stands_in_the_headline_beside_what_passed(optimizer):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = optimizer(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=2.0**-60)

    def loss(model, x):
        return 100 * model(x).square().mean()

    def step(window):
        optimizer.zero_grad()
        for x in window:
            scaler.scale(loss(model, x) / len(window)).backward()
        scaler.step(optimizer)
        scaler.update()

    windows = [[torch.randn(4, 3) for _ in range(2)] for _ in range(4)]
    result = verify(step, windows, model=model, optimizer=optimizer, loss=loss, scale=scaler)
    assert result.passed, result
    assert f"; 3 of 4 attempts compared, 1 skipped (overflow at scale {2**127})" in result.headline
    assert f"the scale went down to {2**67}" in str(result)
