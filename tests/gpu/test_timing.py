"""The time of a CUDA device by stage, from events in its stream: what only such a device can show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import batch, cross_entropy, mlp
from truestep.timing.profile import profile

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]
MILLION_CYCLES = 1_000_000
"""Of torch.cuda._sleep: at 2 GHz half a millisecond."""


class Slow(nn.Module):
    """An MLP whose forward keeps the device, and not the host, busy for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = mlp(width=64)

    def forward(self, x: Tensor) -> Tensor:
        torch.cuda._sleep(20 * MILLION_CYCLES)
        return self.inside(x)


def an_update() -> truestep.Update[tuple[Tensor, Tensor]]:
    model = Slow().cuda()
    return truestep.Update(model, torch.optim.AdamW(model.parameters(), fused=True), loss=cross_entropy, policy="fp16")


def a_window() -> list[tuple[Tensor, Tensor]]:
    return [tuple(part.cuda() for part in batch(8, seed)) for seed in (1, 2)]


def test_a_kernel_that_lasts_shows_in_its_stage_on_the_device_and_on_the_host_in_judge() -> None:
    update, window = an_update(), a_window()
    with profile(after=3, attempts=5) as found:
        for _ in range(8):
            update(window)
    stages = {stage.name: stage for stage in found.stages}
    assert max(stages.values(), key=lambda stage: stage.device_median_seconds).name == "forward"
    assert stages["forward"].device_median_seconds > 2 * 20 * MILLION_CYCLES / 4e9, "no device has more than 4 GHz"
    assert stages["judge"].median_seconds > stages["forward"].median_seconds, "where the host waits for the device"
    assert found.table.device == "cuda:0"
    assert sum(stage.device_share for stage in found.stages) == pytest.approx(1.0)


def test_a_profile_waits_for_the_device_when_it_is_read_and_in_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    update, window = an_update(), a_window()
    for _ in range(3):
        update(window)
    waits = []
    real = torch.cuda.Event.synchronize
    monkeypatch.setattr(torch.cuda.Event, "synchronize", lambda event: (waits.append(event), real(event)))
    with profile(after=0, attempts=2) as found:
        for _ in range(3):
            update(window)
    assert waits == []
    assert found.table.attempts == 2
    assert waits != []


def test_the_trace_shows_kernels_of_the_device_beside_the_stages(tmp_path: Path) -> None:
    update, window = an_update(), a_window()
    with profile(tmp_path / "trace.json", after=2, attempts=1):
        for _ in range(4):
            update(window)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event.get("cat") == "kernel" for event in events)
    assert any(event.get("name") == "truestep.forward" for event in events)
