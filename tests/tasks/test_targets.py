"""The targets of the built-in tasks come from the documented pilot, and a run reaches them inside its budget."""

import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from truestep.run import Settings, train
from truestep.tasks import BytesLM, DigitsConv, Logistic, load

PILOT = Path(__file__).parents[2] / "benchmarks" / "pilot.py"


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("name", ["logistic", "digits-conv"])
def test_float32_reaches_the_target_inside_the_budget(name: str, seed: int) -> None:
    record = train(load(name), Settings(device="cpu", threads=1), seed=seed)
    assert record.status == "reached"
    assert record.counts.skipped == 0


# A run of bytes-lm takes seconds: one seed here, all seven by `benchmarks/pilot.py bytes-lm 0 6`.
@pytest.mark.parametrize(
    ("name", "policy"), [("bytes-lm", "fp32"), ("bytes-lm", "bf16"), ("digits-conv", "bf16"), ("logistic", "bf16")]
)
def test_one_seed_reaches_the_target_in_each_format(name: str, policy: str) -> None:
    record = train(load(name), Settings(policy=policy, device="cpu", threads=1), seed=0)
    assert record.status == "reached"
    assert record.counts.completed <= 0.9 * load(name).updates
    assert record.counts.skipped == 0


def test_a_target_is_the_pilots_median_and_the_slack_that_is_told() -> None:
    assert DigitsConv.target == (294 - 3) / 300
    assert BytesLM.target == pytest.approx(2.765 + 0.135, rel=1e-12)
    assert Logistic.target == pytest.approx(0.1854 + 0.0146, rel=1e-12)


def test_the_pilot_says_what_the_docstring_says() -> None:
    command = [sys.executable, str(PILOT), "logistic", "100", "101"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    *runs, last = ended.stdout.splitlines()
    best = [float(line.split()[3]) for line in runs]
    assert last == f"log loss in nats: median best {statistics.median(best):.4f}, target {Logistic.target}"
    assert "median best 0.1854" in last
    assert "median best log loss was 0.1854" in " ".join((Logistic.__doc__ or "").split())
