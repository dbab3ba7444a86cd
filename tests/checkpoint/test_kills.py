"""A save that is killed, or that fails, at any system call leaves the old checkpoints or the new one, whole."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

import truestep
from tests.checkpoint.trainings import begin, state, train
from tests.disk.faults import ERRORS, errors_of, in_child, intercepted, killed, traced
from truestep.disk import atomic
from truestep.engine.randomness import random_state, set_random_state

STALE = ".attempt-00000001.ckpt.0123abcd.new"
KEPT = ["attempt-00000002.ckpt", "attempt-00000006.ckpt", "attempt-00000008.ckpt"]
"""Of saves at 2, 4, 6 and 8 attempts: the best, and the last two."""


def checkpoints(folder):
    return truestep.Checkpoints(folder, quality_better="higher")


def saved(folder):
    """The names of the checkpoints, all of them whole; and nothing but them and temporaries is there."""
    names = sorted(name for name in os.listdir(folder) if not name.endswith(".new"))
    for name in names:
        truestep.read_checkpoint(folder / name)
    return names


def temporaries(folder):
    return [name for name in os.listdir(folder) if name.endswith(".new")]


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A folder with the checkpoints of 2, 4 and 6 attempts and a killed process's temporary, and the training at 8 attempts."""
    folder = tmp_path_factory.mktemp("before")
    update, data = begin()
    for quality in (0.9, 0.1, 0.2):
        train(update, data, 2)
        truestep.Checkpoints(folder, keep_last=3).save(update, quality=quality, data=data)
    old = state(update, data)
    train(update, data, 2)
    new, draws = state(update, data), random_state()
    (folder / STALE).write_bytes(b"torn")

    def save(checkpoints, fault=None):
        set_random_state(draws)  # whatever the test drew meanwhile
        with intercepted(fault) if fault else nullcontext([]) as calls:
            checkpoints.save(update, quality=0.3, data=data)
        return calls

    return SimpleNamespace(folder=folder, old=old, new=new, save=save)


@pytest.fixture
def again(before, tmp_path, monkeypatch):
    """Makes the folder as it was before the save; the save's bytes go out by many writes."""
    monkeypatch.setattr(atomic, "BUFFER_BYTES", 1 << 11)

    def copied():
        shutil.rmtree(tmp_path / "folder", ignore_errors=True)
        return Path(shutil.copytree(before.folder, tmp_path / "folder"))

    return copied


def test_the_calls_of_a_save_are_in_this_order(again, before):
    log, ours = [], checkpoints(again())
    before.save(ours, traced(log))
    reserve = "mkdir open unlink open write fsync close unlink"  # the folder and its hold, the sweep, the proof
    write = r"open( write){5,} lseek write fsync close replace open fsync close"
    assert re.fullmatch(f"{reserve} {write} unlink", " ".join(name for name, _ in log))
    assert log[-1] == ("unlink", ours.folder / "attempt-00000004.ckpt")


def can_trace():
    """Whether strace is here, and may do its work."""
    return (
        shutil.which("strace") is not None
        and subprocess.run(["strace", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or may not trace")
def test_no_other_system_call_changes_the_folder(tmp_path):
    """The calls that strace sees are the ones that the tests below interrupt."""
    text = (
        "import sys, torch, truestep\n"
        "from tests.disk.faults import intercepted, traced\n"
        "model = torch.nn.Linear(2, 1)\n"
        "update = truestep.Update(model, torch.optim.SGD(model.parameters()), loss=lambda model, x: model(x).mean())\n"
        "checkpoints, log = truestep.Checkpoints(sys.argv[1], keep_last=1), []\n"
        "checkpoints.save(update); update([torch.ones(1, 2)])\n"
        "sys.stderr.write('BEGIN\\n')\n"
        "with intercepted(traced(log)): checkpoints.save(update)\n"
        "sys.stderr.write('END\\n'); print(*(name for name, _ in log))"
    )
    trace = "trace=write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,ftruncate,truncate,openat,link"
    done = subprocess.run(
        ["strace", "-f", "-y", "-o", str(tmp_path / "trace"), "-e", trace, sys.executable, "-c", text, str(tmp_path / "folder")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    seen = re.split(r'"(?:BEGIN|END)\\n"', (tmp_path / "trace").read_text())[1].splitlines()
    changing = [
        re.sub(r"^\d+\s+|\(.*", "", line).replace("openat", "open").replace("rename", "replace")
        for line in seen
        if str(tmp_path / "folder") in line and ("openat(" not in line or "O_CREAT" in line)
    ]
    assert changing == ["open", "write", "write", "fsync", "replace", "fsync", "unlink"]
    ours = [name for name in done.stdout.split() if name not in ("lseek", "close")]
    assert ours == [*changing[:5], "open", *changing[5:]], "the folder is opened, to be synced"


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_after_a_kill_at_any_system_call_of_a_save_the_old_or_the_new_one_is_restored(again, before, when):
    update, data = begin(seed=5)
    states, found, at = {6: before.old, 8: before.new}, [], 0
    while True:
        folder, at = again(), at + 1
        ended = in_child(lambda: before.save(checkpoints(folder), killed(at, when)))  # noqa: B023 - the child runs now
        assert len(saved(folder)) >= 3, "no fewer than before"
        restored = checkpoints(folder).restore(update, data=data)
        assert restored.refused == ()
        assert state(update, data) == states[restored.attempts]
        found.append(restored.attempts)
        before.save(checkpoints(folder))
        assert (saved(folder), temporaries(folder)) == (KEPT, [])
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
    assert at > 25
    assert found == sorted(found), "the old one before the rename, the new one from it on"
    assert set(found) == {6, 8}


@pytest.mark.parametrize("code", ERRORS)
def test_after_an_error_at_any_system_call_of_a_save_it_says_so_and_the_earlier_ones_are_whole(again, before, code):
    errors, all_of_them = [], []

    def prepare():
        all_of_them.append(checkpoints(again()))
        return all_of_them[-1]

    for error in errors_of(before.save, code, truestep.errors.CheckpointError, prepare=prepare):
        errors.append(error)
        ours = all_of_them[-1]
        folder = ours.folder
        if error is not None:
            assert os.strerror(code) in str(error)
            assert "hint:" in str(error)
            assert set(saved(folder)) >= {"attempt-00000002.ckpt", "attempt-00000004.ckpt", "attempt-00000006.ckpt"}
            assert set(temporaries(folder)) <= {STALE}
            before.save(ours)  # room was made
        assert (saved(folder), temporaries(folder)) == (KEPT, [])
    assert len(errors) > 25
    assert errors.count(None) == 1, "the folder need not be made"
