"""Every policy that a processor can do trains the tasks, is judged in float32, and goes on bit for bit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from truestep import tasks
from truestep.run import Saving, Settings, train

POLICIES = ["bf16", "bf16-master", "fp16-master", "bf16-pure"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["logistic", "digits", "digits-conv", "bytes-lm"])
def test_a_task_trains_and_is_judged_in_float32(name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.load(name)
    seen: set[torch.dtype] = set()
    quality = task.quality

    def judged(model: nn.Module, dataset: Any) -> float:
        seen.update(p.dtype for p in model.parameters())
        return quality(model, dataset)

    monkeypatch.setattr(task, "quality", judged)
    record = train(task, Settings(policy=policy, budget_attempts=3, evaluate_every=2 * task.batch), seed=0)
    assert (record.status, record.detail) in (("budget", None), ("reached", None))
    assert record.counts.completed >= 1
    assert all(math.isfinite(place.quality) for place in record.evaluations)
    assert seen == {torch.float32}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_stopped_run_goes_on_bit_for_bit(policy: str, tmp_path: Path) -> None:
    settings = Settings(policy=policy, budget_attempts=12, evaluate_every=256)
    straight = train(tasks.load("digits"), settings, seed=3)
    calls = iter(range(100))
    train(tasks.load("digits"), settings, seed=3, checkpoints=Saving(folder=tmp_path), stop=lambda: next(calls) == 4)
    resumed = train(tasks.load("digits"), settings, seed=3, checkpoints=Saving(folder=tmp_path), resume=True)
    assert (resumed.weights_digest, resumed.counts) == (straight.weights_digest, straight.counts)
    assert [place.quality for place in resumed.evaluations] == [place.quality for place in straight.evaluations]
