"""What is measured on a CUDA device, run on the processor as far as it goes there, and on the device where there is one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from benchmarks import gpu, gpu_tail, tail, update
from benchmarks.fixed import Clock, way
from benchmarks.gpu_loops import Loops

DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu])]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    return str(request.param)


@pytest.mark.parametrize("policy", ["bf16", "fp16"])
def test_the_loop_by_hand_and_ours_end_with_the_same_weights(policy: str, device: str) -> None:
    loops = Loops(16, 4, 3, policy, device)
    begun = list(loops.make()[0].parameters())
    by_hand, ours = loops.hand()[1], loops.ours()[1]
    assert way(by_hand, begun, [p + 1.0 for p in begun]) > 0.0
    assert way(ours, by_hand, begun) < 1e-2


def test_the_loops_are_measured_as_those_on_the_processor_are(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "RIVALS", {})
    rows = update.rows_of(Loops(16, 4, 2, "bf16", device), "16", rounds=3, most_seconds=1.0, clock=Clock())
    assert {row.contender for row in rows} == {"hand", "hand again", "truestep"}
    assert all(row.ms is not None and row.ms > 0.0 for row in rows)


@pytest.mark.parametrize(
    ("policy", "optimizer", "fused"), [*itertools.product(["fp16", "bf16"], ["AdamW", "SGD"], [True, False])]
)
def test_the_tails_end_with_the_same_weights(policy: str, optimizer: str, fused: bool, device: str) -> None:
    row = tail.row(gpu_tail.Sizes(6000, 3, device), policy, optimizer, fused=fused, rounds=3, most_seconds=1.0)
    assert row.apart <= 1e-3


def test_an_absent_contender_is_told_with_its_reason() -> None:
    class Module:
        def hand(self) -> None: ...

        ours = fabric = trainer = hand

        def accelerate(self) -> None:
            raise ImportError("no accelerate")

    runs, absent = update.available(Module())
    assert absent == {"Accelerate": "no accelerate"}
    assert list(runs) == ["hand", "hand again", "truestep", "Fabric", "Trainer"]


class Silent:
    """Stands for torch.cuda: allocates 7 bytes, then 12 in the first run; each run waits twice."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __getattr__(self, name: str) -> Any:
        values = {"memory_allocated": 7, "max_memory_allocated": 19}
        return lambda *arguments: self.said.append(" ".join([name, *map(str, arguments)])) or values.get(name)


def test_use_is_the_peak_above_what_there_was_and_the_waits_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings  # noqa: PLC0415 - its filters are what is used here

    fake = Silent()
    monkeypatch.setattr(torch, "cuda", fake)

    def work() -> None:
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("another word", stacklevel=1)
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gpu.use_of(work)
    assert found == gpu.Use(peak_bytes=12, waits=2)
    assert fake.said[-2:] == ["set_sync_debug_mode warn", "set_sync_debug_mode default"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_seconds_by_events_are_those_of_the_device() -> None:
    large = torch.randn(4096, 4096, device="cuda")
    once, often = (gpu.seconds_on_device(lambda n=n: [large @ large for _ in range(n)]) for n in (1, 50))
    assert 0.0 < once < often
