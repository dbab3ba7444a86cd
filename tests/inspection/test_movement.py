"""An update is stuck in a format where it is below half the spacing of its weight, and only what had an update counts."""

from __future__ import annotations

import torch

from truestep.inspection.movement import Moving


def test_each_format_loses_the_updates_below_half_its_spacing() -> None:
    moving, before = Moving(), {"w": torch.ones(6)}
    # half an ulp of 1 is 2^-8 in bf16, 2^-11 in fp16; the fifth has a gradient and does not move, the sixth has none
    after = {"w": torch.tensor([1 + 2.0**-8, 1 + 2.0**-9, 1 + 2.0**-11, 1 + 2.0**-12, 1.0, 1.0])}
    moving.add(before, after, {"w": torch.tensor([False, False, False, False, True, False])})
    (found,) = moving.movements({"w": "layer"})
    assert found.layer == "layer"
    assert found.elements == 5
    assert found.stuck == {"fp32": 1, "bf16": 4, "fp16": 2}


def test_attempts_add_up_and_a_sparse_gradient_tells_nothing() -> None:
    moving = Moving()
    for _ in range(2):
        moving.add({"w": torch.ones(3)}, {"w": torch.tensor([1.5, 1.0, 1.0])}, {"w": torch.empty(0)})
    (found,) = moving.movements({})
    assert (found.layer, found.elements, found.stuck["bf16"]) == ("", 2, 0)
