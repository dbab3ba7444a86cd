"""A process that was begun with torch imported is what a process of its own would be."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ready
from tests.profile import FULL

LOOK = """
import os, signal, sys, torch
print(sys.argv, __name__, sys.stdin.read(), sys.path[0], os.getcwd(), sorted(os.environ.items()))
print(torch.ones(1, requires_grad=True).sum().backward(), signal.getsignal(signal.SIGINT).__name__)
print("talk", file=sys.stderr)
sys.exit(7)
"""


@pytest.mark.parametrize("way", [["-c", LOOK], ["look.py"], ["-m", "look"]][: 3 if FULL else 1], ids=lambda way: way[0])
def test_it_begins_and_ends_as_a_process_of_its_own(way: list[str], tmp_path: Path) -> None:
    (tmp_path / "look.py").write_text(LOOK)
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "MARK": "here"}
    options = {"cwd": tmp_path, "env": environment, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    alone = subprocess.run([sys.executable, *way, "--lr", "0.1"], check=False, **options)
    ours = ready.run(*way, "--lr", "0.1", cwd=tmp_path, env=environment)
    assert (ours.stdout, ours.stderr, ours.returncode) == (alone.stdout, alone.stderr, alone.returncode)
    assert ours.returncode == 7


def test_a_signal_reaches_it_alone_and_is_told() -> None:
    process = ready.started("-c", "print('here', flush=True); import time; time.sleep(600)", new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    assert os.getpgid(process.pid) == process.pid
    process.send_signal(signal.SIGTERM)
    assert process.communicate() == ("", "")
    assert process.returncode == -signal.SIGTERM


def test_what_a_shell_runs_begins_so_too(tmp_path: Path) -> None:
    words = "python -c 'import sys; print(\"torch\" in sys.modules)'; truestep --version | cut -c1-8; python -c 'exit(3)'"
    ended = subprocess.run(["sh", "-c", words], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False, **ready.for_sh())
    assert (ended.stdout, ended.returncode) == ("True\ntruestep\n", 3)
