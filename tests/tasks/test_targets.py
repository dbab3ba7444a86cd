"""The targets of the built-in tasks come from the documented pilot, and a run reaches them inside its budget."""

import re
import statistics

import pytest

from tests.profile import FULL
from truestep.compare.standing import best_quality
from truestep.run import Settings, train
from truestep.tasks import BytesLM, Digits, DigitsConv, Logistic, Task, load


@pytest.mark.parametrize("seed", range(7 if FULL else 2))
@pytest.mark.parametrize("name", ["logistic", "digits-conv"])
def test_float32_reaches_the_target_inside_the_budget(name: str, seed: int) -> None:
    record = train(load(name), Settings(device="cpu", threads=1), seed=seed)
    assert record.status == "reached"
    assert record.counts.skipped == 0


# A run of bytes-lm takes seconds: one seed here, of one format in the quick profile; all seven by `truestep compare bytes-lm`.
SLOW = pytest.mark.skipif(not FULL, reason="seven seconds: the full profile runs it")


@pytest.mark.parametrize(
    ("name", "policy"),
    [pytest.param("bytes-lm", "fp32", marks=SLOW), ("bytes-lm", "bf16"), ("digits-conv", "bf16"), ("logistic", "bf16")],
)
def test_one_seed_reaches_the_target_in_each_format(name: str, policy: str) -> None:
    record = train(load(name), Settings(policy=policy, device="cpu", threads=1), seed=0)
    assert record.status == "reached"
    assert record.counts.completed <= 0.9 * load(name).updates
    assert record.counts.skipped == 0


def test_a_pilot_finds_what_the_docstring_says() -> None:
    best = []
    for seed in (100, 101):
        record = train(Logistic(), Settings(device="cpu", threads=1, stop_at_target=False), seed=seed)
        best.append(best_quality(record.as_dict(), "lower"))
    assert f"{statistics.median(best):.4f}" == "0.1854"
    assert "median best log loss was 0.1854" in " ".join((Logistic.__doc__ or "").split())


@pytest.mark.parametrize("task", [Digits, DigitsConv, BytesLM, Logistic])
def test_the_command_that_repeats_a_targets_pilot_is_told_with_the_slack(task: type[Task]) -> None:
    said = " ".join((task.__doc__ or "").split())
    found = re.search(rf"`truestep compare {task.name} --pilot 10 --slack ([0-9.]+)`", said)
    assert found is not None
    sign = 1 if task.quality_better == "higher" else -1
    median = {Digits: 291 / 300, DigitsConv: 294 / 300, BytesLM: 2.765, Logistic: 0.1854}[task]
    assert task.target == pytest.approx(median - sign * float(found[1]), abs=1e-9)
