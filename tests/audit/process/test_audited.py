"""A stranger's script runs under an audit as it runs without one, and what it did comes home whatever way it ends."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent

import pytest

from tests import ready
from tests.profile import FULL
from truestep.audit.events import Raised, Ranks
from truestep.audit.process import audit

SLOW = pytest.mark.skipif(not FULL, reason="several processes that import torch: the full profile runs it")

FAULT = "clip-before-unscale"

LOOP = """
import torch


def train(attempts, after=lambda attempt: None, model=None):
    torch.manual_seed(attempts)
    model = torch.nn.Linear(4, 1) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for attempt in range(attempts):
        optimizer.zero_grad()
        scaler.scale(model(torch.randn(8, 4)).square().mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        after(attempt)
    return model
"""
LINE = 1 + LOOP.splitlines().index("        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the loop, where the command is given; `write(name, text)` puts a script there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "loop.py").write_text(LOOP)

    def write(name, text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text).lstrip())
        return name

    return write


def planted(audited):
    """How often the planted fault was seen at its line; it is the only finding."""
    return [(each.rule, Path(each.path).name, each.line, each.times) for each in audited.findings]


def unseen(audited):
    """Why something was not judged."""
    return [each["why"] for each in audited.coverage["not_judged"]]


def test_a_script_runs_as_without_an_audit_and_all_its_processes_are_seen(here, tmp_path, monkeypatch, capfdbinary):
    here("own/sitecustomize.py", "print('customized')")
    here("other.py", "from loop import train\ntrain(2)\n")
    script = here(
        "work/train.py",
        """
        import os, random, subprocess, sys
        sys.path.append(os.getcwd())
        import torch._dynamo  # as an optimizer does: once for all forks
        from loop import train

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return torch.rand(1)

        print(sys.argv, __file__, __name__, sys.path, sys.modules["__main__"].__file__, sys.stdin.read())
        torch.manual_seed(0)
        print([float(each) for each in torch.utils.data.DataLoader(Data(), num_workers=2)])
        subprocess.run([sys.executable, "other.py"], check=True)
        for attempts in (3, 0):
            child = os.fork()
            if not child:
                if attempts:
                    train(attempts)
                os._exit(7)
            print(os.waitpid(child, 0)[1])
        model = train(5)
        print([each.tolist() for each in model.parameters()], torch.rand(1).item(), random.Random(1).random())
        os.write(1, bytes(range(256)))
        sys.exit(3)
        """,
    )
    monkeypatch.setenv("PYTHONPATH", "own")
    (tmp_path / "input").write_text("typed")
    command = [script, "--lr", "0.1"]
    with (tmp_path / "input").open() as typed:
        plain = subprocess.run([sys.executable, *command], stdin=typed, capture_output=True, check=False)
    before = os.dup(0)
    with (tmp_path / "input").open() as typed:
        os.dup2(typed.fileno(), 0)
        try:
            audited = audit(command)
        finally:
            os.dup2(before, 0)
            os.close(before)
    assert capfdbinary.readouterr().out == plain.stdout
    assert audited.script_exit == plain.returncode == 3
    assert planted(audited) == [(FAULT, "loop.py", LINE, 2 + 3 + 5)]
    assert (audited.coverage["processes"], audited.coverage["attempts"], audited.coverage["completed"]) == (3, 10, 10)
    assert unseen(audited) == []
    assert (audited.interrupted, audited.traceback) == (None, None)
    assert list((tmp_path / "temporary").iterdir()) == []


@SLOW
def test_an_exception_is_printed_as_always_and_told_with_the_users_line(here, capfdbinary):
    script = here(
        "train.py",
        """
        import torch
        from loop import train

        def after(attempt):
            if attempt == 2:
                torch.ones(2) @ torch.ones(3)

        train(9, after)
        """,
    )
    plain = subprocess.run([sys.executable, script], capture_output=True, check=False)
    audited = audit([script])
    assert capfdbinary.readouterr().err == plain.stderr
    assert audited.script_exit == plain.returncode == 1
    (story,) = audited.stories
    (raised,) = story.of(Raised)
    assert (raised.kind, Path(raised.site.path).name, raised.site.line) == ("RuntimeError", "train.py", 6)
    assert audited.traceback == plain.stderr.decode()
    assert (FAULT, "loop.py", LINE, 3) in planted(audited)


@pytest.mark.parametrize("begun_by", ["fork", pytest.param("exec", marks=SLOW)])
def test_a_process_that_dies_without_a_word_has_told_most_of_what_it_saw(here, capfdbinary, begun_by):
    script = here(
        "train.py",
        """
        import ctypes, os, signal, subprocess, sys, time
        ways = {
            "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "exit": lambda: os._exit(4),
            "fault": lambda: ctypes.string_at(0),
        }

        def after(attempt):
            time.sleep(0.02)
            if attempt == 30:
                ways[way]()

        def child():
            from loop import train
            train(99, after)

        if sys.argv[1] == "exec":
            codes = [subprocess.run([sys.executable, __file__, way]).returncode for way in ways]
        elif sys.argv[1] == "fork":
            import torch._dynamo  # as an optimizer does: once for all forks
            codes = []
            for way in ways:
                if not (number := os.fork()):
                    child()
                codes.append(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
        else:
            way = sys.argv[1]
            child()
        sys.exit(codes != [-9, 4, -11])
        """,
    )
    audited = audit([script, begun_by])
    assert audited.script_exit == 0
    assert audited.coverage["processes"] == 3
    assert [each.rule for each in audited.findings] == [FAULT]
    attempts = [sum(story.totals.attempts.values()) for story in audited.stories]
    assert max(attempts) == 31  # that which called os._exit
    assert min(attempts) >= 1
    assert unseen(audited) == ["it was killed, and wrote nothing in its last moment"] * 2


PARENT = """
import json, sys
from truestep.audit.process import audit

if __name__ == "__main__":
    audited = audit(sys.argv[1:])
    told = [audited.script_exit, audited.interrupted, [each.rule for each in audited.findings], audited.coverage["attempts"] > 0]
    print(json.dumps(told), flush=True)
"""


@pytest.mark.parametrize(
    ("number", "to_all", "caught", "script_exit"),
    [(signal.SIGINT, True, True, 0), (signal.SIGINT, True, False, -2), (signal.SIGTERM, False, False, -15)],
)
def test_what_was_seen_before_a_signal_is_told(here, number, to_all, caught, script_exit):
    here("parent.py", PARENT)
    script = here(
        "train.py",
        f"""
        import time
        from loop import train

        def after(attempt):
            if attempt == 3:
                print("started", flush=True)
            time.sleep(0.05 if attempt > 3 else 0)

        try:
            train(1200, after)
        except KeyboardInterrupt:
            print("saved", flush=True)
            if not {caught}:
                raise
        """,
    )
    parent = ready.started("parent.py", script, new_session=True)
    assert parent.stdout.readline() == "started\n"
    os.killpg(parent.pid, number) if to_all else os.kill(parent.pid, number)
    out, err = parent.communicate()
    *saved, told = out.splitlines()
    assert saved == ["saved"] * (number == signal.SIGINT)
    assert told == f'[{script_exit}, {int(number)}, ["{FAULT}"], true]'
    assert parent.returncode == 0
    assert ("KeyboardInterrupt" in err) is (script_exit == -2)


@SLOW
def test_what_ranks_do_differently_is_told_and_what_they_do_alike_is_told_once(here, capfdbinary):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = here(
        "train.py",
        f"""
        import os
        import torch
        from torch import distributed, multiprocessing
        from torch.nn.parallel import DistributedDataParallel

        def work(rank):
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}")
            distributed.init_process_group("gloo", rank=rank, world_size=2)
            torch.manual_seed(0)
            model = DistributedDataParallel(torch.nn.Linear(4, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cpu")
            torch.manual_seed(rank)
            for attempt in range(3):
                with model.no_sync():
                    scaler.scale(model(torch.randn(8, 4)).square().mean()).backward()
                if attempt:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # which makes all norms one
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            distributed.barrier()
            distributed.destroy_process_group()
            if rank:
                raise ValueError("enough")

        if __name__ == "__main__":
            multiprocessing.spawn(work, nprocs=2)
        """,
    )
    audited = audit([script])
    assert b"ValueError: enough" in capfdbinary.readouterr().err
    assert audited.script_exit == 1
    assert [story.rank for story in audited.stories] == [0, 1]
    assert [len(each.values) for each in audited.stories[0].of(Ranks) if each.what == "gradient"] == [2]
    assert audited.stories[1].of(Ranks) == ()
    (raised,) = audited.stories[1].of(Raised)
    assert (raised.kind, raised.text, raised.site.place.function) == ("ValueError", "enough", "work")
    assert (FAULT, "train.py", 18, 4) in planted(audited)


@SLOW
def test_torchrun_is_ended_quietly_after_as_many_attempts_as_were_asked_for(here, capfdbinary):
    script = here("train.py", "from loop import train\ntrain(400)\n")
    command = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", script]
    audited = audit(command, module=True, max_updates=3, stdout_to_stderr=True)
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert b"Traceback" not in err
    assert audited.script_exit == 0
    assert [story.rank for story in audited.stories] == [0, 1]
    assert planted(audited) == [(FAULT, "loop.py", LINE, 6)]
    assert unseen(audited) == ["the script was ended there, as was asked"]


@SLOW
def test_a_package_is_run_as_a_module_and_what_it_prints_may_go_to_stderr(here, capfdbinary):
    here("package/__init__.py", "")
    here(
        "package/__main__.py",
        """
        import sys
        import torch
        from loop import train
        from . import __name__ as name

        print(name, __name__, sys.argv[1:])
        try:
            train(400)
        except Exception:
            print("caught")
        finally:
            print("left")
        """,
    )
    audited = audit(["package", "-m"], module=True, max_updates=2, stdout_to_stderr=True)
    out, err = capfdbinary.readouterr()
    assert (out, err) == (b"", b"package __main__ ['-m']\nleft\n")
    assert audited.script == "package"
    assert audited.script_exit == 0
    assert planted(audited) == [(FAULT, "loop.py", LINE, 2)]


def test_a_script_without_torch_says_nothing_and_the_audit_says_so(here, capfdbinary):
    audited = audit([here("train.py", "print('done')\n")])
    assert capfdbinary.readouterr().out == b"done\n"
    assert (audited.script_exit, audited.findings, audited.stories) == (0, (), ())
    assert unseen(audited) == ["no process that was watched made an optimizer of torch's"]


def test_signals_are_afterwards_what_they_were(here):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    audit([here("train.py", "")])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_signal_that_is_ignored_stays_so_in_the_script(here, capfdbinary):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        audit([here("train.py", "import signal; print(signal.getsignal(signal.SIGINT).name)")])
    finally:
        signal.signal(signal.SIGINT, before)
    assert capfdbinary.readouterr().out == b"SIG_IGN\n"
