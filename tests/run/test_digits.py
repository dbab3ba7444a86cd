"""The built-in task is what a comparison needs: its target is reached well inside its budget, in every format and seed."""

import pytest

from tests.profile import FULL
from truestep.run import Settings, train
from truestep.tasks import Digits


@pytest.mark.parametrize("seed", range(10 if FULL else 3))
def test_float32_reaches_the_target_within_half_the_budget(seed: int) -> None:
    record = train(Digits(), Settings(device="cpu", threads=1), seed=seed)
    assert record.status == "reached"
    assert record.counts.completed <= Digits.updates // 2
    assert record.counts.skipped == 0


@pytest.mark.parametrize("policy", ["bf16", "fp16"])
def test_the_narrow_formats_reach_it_too(policy: str) -> None:
    record = train(Digits(), Settings(policy=policy, device="cpu", threads=1), seed=0)
    assert record.status == "reached"
    assert record.counts.completed <= Digits.updates // 2
