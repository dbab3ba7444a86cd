"""Law 14 on the command itself: `kill -9` at random moments, resumes until the end, and every bit is the undisturbed run's."""

import json
from pathlib import Path

import pytest

from tests import profile, ready

HERE = Path(__file__).parent
KILLS = 50 if profile.FULL else 4
NOISY = f"{HERE}/noisy_task.py"


@pytest.mark.parametrize(
    "arguments",
    [
        [f"{NOISY}:Noisy", "--policy", "fp16", "--checkpoint-every", "3"],
        [f"{NOISY}:Alone", "--policy", "bf16", "--clip", "0.5", "--clock", "attempt", "--checkpoint-every", "1"],
        ["digits", "--budget-attempts", "60", "--checkpoint-every", "7"],
    ],
    ids=["workers-fp16", "alone-bf16", "digits"],
)
def test_a_run_that_is_killed_at_any_moment_ends_as_the_undisturbed_one(arguments, tmp_path):
    command = [str(HERE / "killing.py"), str(KILLS), str(profile.seed()), "train", *arguments, "--device", "cpu"]
    ended = ready.run(*command, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    undisturbed, *runs = map(json.loads, ended.stdout.splitlines())
    assert undisturbed["status"] == "budget"
    assert undisturbed["counts"] | {"skipped": undisturbed["ledger"]["skipped"]} == undisturbed["ledger"]
    if "fp16" in arguments:
        assert undisturbed["ledger"]["skipped"] > 1
    killed = 0
    for run in runs:
        lives = run.pop("lives")
        assert run == undisturbed, f"killed after {lives[:-1]} seconds of its processes, the last of which came to the end"
        killed += len(lives) - 1
    assert killed >= KILLS
