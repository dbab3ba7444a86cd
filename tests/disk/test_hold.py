"""A folder belongs to one process, until it dies."""

import signal
import subprocess
import sys

import pytest

from tests.disk.faults import in_child
from truestep.disk import hold as module
from truestep.disk.hold import held

# The file alone, for the package would import torch.
HOLD = "import pathlib, runpy, sys; hold = runpy.run_path(sys.argv[1])['held'](pathlib.Path(sys.argv[2]))\n"


def command(path, after=""):
    return [sys.executable, "-c", HOLD + after, module.__file__, str(path)]


def elsewhere(path, after=""):
    """The end of another process that takes the hold."""
    return subprocess.run(command(path, after), capture_output=True, text=True, check=False)


def test_another_process_is_kept_out_as_long_as_the_hold_lives(tmp_path):
    hold = held(tmp_path)
    assert "BlockingIOError" in elsewhere(tmp_path).stderr
    hold.release()
    assert elsewhere(tmp_path).returncode == 0


def test_a_hold_ends_with_its_last_reference_and_is_one_within_a_process(tmp_path):
    hold, again = held(tmp_path), held(tmp_path / ".")
    assert hold is again
    del hold
    assert elsewhere(tmp_path).returncode != 0
    del again
    assert elsewhere(tmp_path).returncode == 0


def test_a_killed_process_holds_nothing(tmp_path):
    assert elsewhere(tmp_path, "import os; os.kill(os.getpid(), 9)").returncode == -signal.SIGKILL
    assert held(tmp_path).is_alive


def test_a_fork_has_no_part_in_the_hold(tmp_path):
    hold = held(tmp_path)

    def child():
        assert not hold.is_alive
        with pytest.raises(BlockingIOError):
            held(tmp_path)

    assert in_child(child) == 0
    assert hold.is_alive


def test_a_fork_that_outlives_its_parent_does_not_keep_the_hold(tmp_path):
    """The workers of a killed trainer live on for seconds."""
    text = (
        "import os\n"
        "mine, childs = os.pipe()\n"
        "if os.fork() == 0: os.write(childs, b'x'); sys.stdin.read(); os._exit(0)\n"
        "os.read(mine, 1); os.kill(os.getpid(), 9)"  # not before the child runs
    )
    with subprocess.Popen(command(tmp_path, text), stdin=subprocess.PIPE) as parent:
        assert parent.wait() == -signal.SIGKILL
        assert parent.stdin is not None
        parent.stdin.write(b"a worker that had died would not take this\n")
        parent.stdin.flush()
        assert held(tmp_path).is_alive


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        held(tmp_path / "none")
