"""A learner's loop passes where it does what the engine does, and what is off in any other is said as verify says it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import truestep
from tests.profile import FULL
from truestep.engine.clip import ClipNorm
from truestep.engine.update import Update
from truestep.errors import TruestepError, UsageError
from truestep.labs.asking import running, trial
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
        (
            "1",
            "    for batch in given:\n        optimizer.zero_grad()\n",
            "    optimizer.zero_grad()\n    for batch in given:\n",
            "zeroed",
        ),
        ("1", "scaler.scale(value).backward()", "value.backward()", "the loss was not scaled"),
        ("1", "in given:", "in list(given)[:5]:", "nothing moved in attempt 1"),
        ("1", "in given:", "in [given[0]]:", "go through them"),
        ("1", "        scaler.update()\n", "", "scaler.update() is missing"),
        (
            "1",
            "        scaler.unscale_(optimizer)\n",
            "        scaler.unscale_(optimizer)\n" * 2,
            "unscale_(optimizer) came twice",
        ),
        ("2", " / len(window)", "", "not-divided"),
        ("2", "        scaler.unscale_(optimizer)\n", "", "clip-before-unscale"),
        ("2", "        optimizer.zero_grad()\n        for batch", "        for batch", "zero_grad() belongs inside"),
        ("2", "for batch in window:", "for batch in window[-1:]:", "last-only"),
        ("2", "scaler.step(optimizer)\n", "scaler.step(optimizer)\n        scaler.update()\n", "update() came twice in a row"),
        ("2", "        scaler.update()\n", "", "scaler.update() is missing"),
        (
            "2",
            "        scaler.unscale_",
            "            scaler.update()\n        scaler.unscale_",
            "not into a loop over microbatches",
        ),
    ],
)
def test_what_is_off_is_said(tmp_path, name, old, new, said):
    assert old in LOOPS[name]
    found = report(tmp_path, name, HEAD + LOOPS[name].replace(old, new))
    assert not found.passed
    assert said in " ".join(found.off), found


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(
    ("old", "new", "attempt", "first"),
    [
        ("        optimizer.zero_grad()\n", "", 2, "gradients were not zeroed: the first backward of attempt 2"),
        ("scaler.step(optimizer)", "optimizer.step()", 4, "attempt 4 has an input of infinity"),
    ],
)
def test_the_first_mistake_is_named_with_what_follows_and_its_verdict_is_failed(tmp_path, name, old, new, attempt, first):
    assert old in LOOPS[name]
    found = report(tmp_path, name, HEAD + LOOPS[name].replace(old, new))
    (off,) = found.off
    assert off.startswith(first)
    assert "From this follows: " in off
    assert "the loss scale is 512 after attempt 5, not 1024" in off
    assert "scaler.update()" not in off, "it stands where it belongs"
    assert found.verified.startswith("FAILED: ")
    assert f"attempt {attempt}" in found.verified
    assert "passed" not in str(found)


def test_that_the_gradient_passes_is_no_verdict_where_something_else_is_off(tmp_path):
    found = report(tmp_path, "1", HEAD + AMP.replace('torch.autocast("cpu", dtype=torch.float16)', "torch.enable_grad()"))
    assert not found.passed
    assert found.verified.startswith("the gradient of the windows whose input is finite, by itself: passed")


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


def test_a_file_that_ends_the_process_is_told(tmp_path):
    path = tmp_path / "my_loop.py"
    path.write_text("import os\nprint('goodbye', flush=True)\nos._exit(0)\n")
    assert built(path, "1").off == ("it ended the process itself, with 0", "the last that it said: goodbye")


def test_a_file_that_does_not_end_is_ended(tmp_path, monkeypatch):
    path = tmp_path / "my_loop.py"
    path.write_text("while True:\n    pass\n")
    run, endless = running._run, "import sys; open(sys.argv[1], 'w').write('{\"begun\": true}')\nwhile True: pass"
    monkeypatch.setattr(running, "_run", lambda command, limit: run([sys.executable, "-c", endless, command[-1]], limit))
    assert built(path, "1", limit_seconds=1.0).off == ("it was not done after 1 s, and was ended",)


def test_no_process_of_the_file_outlives_it(tmp_path):
    path, pid = tmp_path / "my_loop.py", tmp_path / "pid"
    path.write_text(
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "os._exit(0)\n"
    )
    assert built(path, "1").off == ("it ended the process itself, with 0",)
    assert _gone(int(pid.read_text()))


def _gone(pid):
    """Whether a process that was killed is dead; where nobody reaps orphans it stays as a zombie."""
    for _ in range(100):
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
        if not found or found.startswith("Z"):
            return True
        time.sleep(0.05)
    return False


def test_what_is_no_python_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_run", None)
    path = tmp_path / "my_loop.py"
    path.write_text("x = 1\ndef train(:\n")
    assert built(path, "1").off == ("SyntaxError: invalid syntax <- line 2: def train(:",)
    path.write_bytes(b"x = '\0'\n")
    assert "null bytes" in built(path, "1").off[0]


def test_a_failure_of_truestep_is_no_verdict_on_the_file(tmp_path, monkeypatch):
    path = tmp_path / "my_loop.py"
    path.write_text(HEAD + AMP)
    monkeypatch.setattr(running, "PROGRAM", "truestep.labs.asking.nowhere")
    with pytest.raises(TruestepError, match=r"could not run: it ended the process itself, with 1; .*nowhere") as raised:
        built(path, "1")
    assert not isinstance(raised.value, UsageError)
    monkeypatch.setattr(running, "_run", lambda command, _: (trial.main(path, "1", Path(command[-1])), ("", ""))[1])
    monkeypatch.setattr(trial, "of_the_engine", lambda goal: {}[goal.name])
    with pytest.raises(TruestepError, match="could not run: KeyError: '1'"):
        built(path, "1")


def test_an_import_that_fails_inside_truestep_is_not_the_files(tmp_path, monkeypatch):
    path, part = tmp_path / "my_loop.py", tmp_path / "package" / "part_of_it.py"
    part.parent.mkdir()
    part.write_text("import no_such_module_at_all\n")
    path.write_text(f"import sys\nsys.path.insert(0, {str(part.parent)!r})\nimport part_of_it\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert "ModuleNotFoundError" in report(tmp_path, "1", path.read_text()).off[0]
    monkeypatch.setattr(truestep, "__file__", str(part.parent / "__init__.py"))
    with pytest.raises(ImportError):
        tried(path, milestone("1"))


def test_what_is_no_file_or_milestone_starts_nothing(tmp_path):
    with pytest.raises(UsageError, match="no file"):
        built(tmp_path / "none.py", "1")
    with pytest.raises(UsageError, match="no milestone '3'"):
        built(tmp_path / "none.py", "3")


def test_nothing_of_it_is_imported_before_it_is_asked_for():
    code = "import sys, truestep.labs.asking.milestones, truestep.labs.asking.judging; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_loop_without_end_does_not_outlive_a_killed_command(tmp_path):
    file = tmp_path / "endless.py"
    file.write_text("import os, pathlib\npathlib.Path('pid').write_text(str(os.getpid()))\nwhile True:\n    pass\n")
    asking = f"from pathlib import Path\nfrom truestep.labs.asking.running import built\nbuilt(Path({str(file)!r}), '1')\n"
    command = subprocess.Popen([sys.executable, "-c", asking], cwd=tmp_path)
    told = tmp_path / "pid"
    wait_for(lambda: told.exists() and told.read_text())
    command.kill()
    command.wait()
    wait_for(lambda: is_over(told.read_text()))


def is_over(pid):
    """Whether there is no such process, or no more than its exit code."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(true, seconds=120):
    """Until it is true; a loaded machine may take long."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
