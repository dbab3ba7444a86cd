"""Predicted memory is the measured one on a CUDA device: to the byte for what stays, near it at the peak."""

from __future__ import annotations

import pytest
import torch

from tests.footprint.models import loss, update_of, window_of
from truestep import Update
from truestep.footprint import memory

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


@pytest.mark.parametrize("policy", ["fp32", "bf16", "bf16-master"])
@pytest.mark.parametrize("name", ["embedding", "deep"])
def test_a_model_takes_what_was_predicted(name: str, policy: str) -> None:
    model = update_of(name, "fp32").model.cuda()
    update = Update(model, lambda params: torch.optim.AdamW(params, fused=True), loss=loss, policy=policy)
    window = [(x.cuda(), y.cuda()) for x, y in window_of(name, 2)]
    found = memory(update, window)
    assert found.predicted.peak_bytes == pytest.approx(found.measured.peak_bytes, rel=0.1), found
    for kind in ("weights", "gradients", "masters"):
        assert getattr(found.predicted.each, kind) == getattr(found.measured.each, kind)
