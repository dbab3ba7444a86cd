"""A learner's loop passes where it does what the engine does, and what is off in any other is said as verify says it."""

import os
import subprocess
import sys

import pytest

from tests.profile import FULL
from truestep.engine.clip import ClipNorm
from truestep.engine.update import Update
from truestep.errors import UsageError
from truestep.labs.asking.milestones import BROKEN, LIMIT, MILESTONES, Report, milestone
from truestep.labs.asking.running import built
from truestep.labs.asking.trial import Task, tried, windows

HEAD = "import torch\nfrom torch.nn.utils import clip_grad_norm_\n\ndef train(model, optimizer, scaler, loss, given, limit):\n"
AMP = """    for batch in given:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            value = loss(model, batch)
        scaler.scale(value).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), limit)
        scaler.step(optimizer)
        scaler.update()
"""
ACCUMULATED = """    for window in given:
        optimizer.zero_grad()
        for batch in window:
            with torch.autocast("cpu", dtype=torch.float16):
                value = loss(model, batch) / len(window)
            scaler.scale(value).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), limit)
        scaler.step(optimizer)
        scaler.update()
"""
LOOPS = {"1": AMP, "2": ACCUMULATED}


def report(tmp_path, name, text):
    path = tmp_path / "my_loop.py"
    path.write_text(text)
    return tried(path, milestone(name))


@pytest.mark.parametrize("name", LOOPS)
def test_the_right_loop_passes_and_goes_as_the_engine(tmp_path, name):
    found = report(tmp_path, name, HEAD + LOOPS[name])
    assert found.passed, found
    assert found.measured == found.expected
    assert [each.moved for each in found.measured] == [True] * 3 + [False] + [True] * 4
    assert [each.scale for each in found.measured] == [1024, 1024, 2048, 1024, 1024, 1024, 2048, 2048]


@pytest.mark.parametrize("goal", MILESTONES)
def test_the_clip_bites_in_some_windows_and_not_in_others(goal):
    task = Task()
    update = Update(task.model, task.optimizer, loss=task.loss, clip=ClipNorm(LIMIT))
    norms = [update(window).grad_norm for window in windows(goal.microbatches)]
    assert norms[BROKEN] is None
    assert {norm > LIMIT for norm in norms if norm is not None} == {True, False}


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("1", "scaler.unscale_(optimizer)", "pass", "clip-before-unscale"),
        ("1", "clip_grad_norm_(model.parameters(), limit)", "pass", "clip"),
        ("1", "scaler.step(optimizer)", "optimizer.step()", "input of infinity and moved the weights"),
        ("1", 'torch.autocast("cpu", dtype=torch.float16)', "torch.enable_grad()", "outputs were float32"),
        ("1", "        optimizer.zero_grad()\n", "", "zero_grad() belongs inside the loop"),
        ("1", "scaler.scale(value).backward()", "value.backward()", "scale"),
        ("1", "in given:", "in list(given)[:5]:", "nothing moved in attempt 1"),
        ("1", "in given:", "in [given[0]]:", "go through them"),
        ("1", "        scaler.update()\n", "", "RuntimeError: unscale_() is being called"),
        ("2", " / len(window)", "", "not-divided"),
        ("2", "        scaler.unscale_(optimizer)\n", "", "clip-before-unscale"),
        ("2", "        optimizer.zero_grad()\n        for batch", "        for batch", "zero_grad() belongs inside"),
        ("2", "for batch in window:", "for batch in window[-1:]:", "last-only"),
        ("2", "scaler.step(optimizer)\n", "scaler.step(optimizer)\n        scaler.update()\n", "AssertionError"),
    ],
)
def test_what_is_off_is_said(tmp_path, name, old, new, said):
    assert old in LOOPS[name]
    found = report(tmp_path, name, HEAD + LOOPS[name].replace(old, new))
    assert not found.passed
    assert said in " ".join(found.off), found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "defines no function"),
        ("train = 3", "defines no function"),
        ("def train(model):\n    pass\n", "TypeError"),
        ("def train(*all):\n    raise SystemExit(0)\n", "SystemExit"),
        ("def train(*all):\n    return all[9]\n", "IndexError: tuple index out of range <- line 2: return all[9]"),
        ("def train(:\n", "SyntaxError"),
    ],
)
def test_a_file_that_cannot_run_is_told_with_its_line(tmp_path, text, said):
    found = report(tmp_path, "1", text)
    assert not found.passed
    assert said in found.off[0]


@pytest.mark.parametrize("goal", MILESTONES)
def test_the_file_to_begin_with_runs_and_is_not_yet_right(tmp_path, goal):
    found = report(tmp_path, goal.name, goal.skeleton)
    assert not found.passed
    assert "nothing moved in attempt 1, 2, 3, 5" in found.off[0]


def test_a_report_comes_back_from_its_record(tmp_path):
    found = report(tmp_path, "2", HEAD + ACCUMULATED.replace(" / len(window)", ""))
    assert Report.of(found.record()) == found
    assert found.off
    assert found.verified


@pytest.mark.skipif(not FULL, reason="takes seconds; tests/cli/test_labs.py runs files in their own process always")
def test_a_file_has_a_process_of_its_own(tmp_path):
    path = tmp_path / "my_loop.py"
    path.write_text("print('x' * 100000, flush=True)\nimport os\nopen('ran', 'w').write(str(os.getpid()))\n" + HEAD + AMP)
    folder = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert built(path, "1").passed
    finally:
        os.chdir(folder)
    assert (tmp_path / "ran").read_text() != str(os.getpid())


def test_a_file_that_ends_the_process_or_does_not_end_is_told(tmp_path):
    path = tmp_path / "my_loop.py"
    path.write_text("import os\nprint('goodbye', flush=True)\nos._exit(0)\n")
    assert built(path, "1").off == ("it ended the process itself, with 0", "the last that it said: goodbye")
    path.write_text("while True:\n    pass\n")
    assert built(path, "1", limit_seconds=1.0).off == ("it was not done after 1 s, and was ended",)


def test_what_is_no_file_or_milestone_starts_nothing(tmp_path):
    with pytest.raises(UsageError, match="no file"):
        built(tmp_path / "none.py", "1")
    with pytest.raises(UsageError, match="no milestone '3'"):
        built(tmp_path / "none.py", "3")


def test_nothing_of_it_is_imported_before_it_is_asked_for():
    code = "import sys, truestep.labs.asking.milestones, truestep.labs.asking.judging; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
