"""The file that every Python process below an audit begins with changes nothing in it, and waits for torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from truestep.audit.plain import plain
from truestep.audit.process.account import ASKED, Request
from truestep.audit.process.child import ARM
from truestep.audit.trace.settings import Settings


@pytest.fixture
def python(tmp_path):
    """Runs a program with a folder of its own on PYTHONPATH, armed or not; gives what ended."""
    (tmp_path / "told").mkdir()
    (tmp_path / "own").mkdir()
    request = json.dumps(plain(Request(folder=str(tmp_path / "told"), settings=Settings())))

    def run(program, *, armed=True):
        path = [str(ARM), str(tmp_path / "own")] if armed else [str(tmp_path / "own")]
        asked = {ASKED: request} if armed else {}
        return subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **asked},
            capture_output=True,
            text=True,
            check=False,
        )

    run.own, run.told = tmp_path / "own", tmp_path / "told"
    return run


LOOK = "import sys; print([sys.path, sys.argv, sys.flags, sorted(sys.modules)])"


def test_a_process_looks_as_it_does_without_an_audit(python):
    armed, plain_ = (python(LOOK, armed=each) for each in (True, False))
    assert armed.stderr == plain_.stderr == ""
    assert armed.stdout.replace("'sitecustomize', ", "") == plain_.stdout.replace("'sitecustomize', ", "")


def test_the_users_own_sitecustomize_runs_once_and_is_the_one_that_is_imported(python):
    (python.own / "sitecustomize.py").write_text("print('mine'); colour = 'red'")
    ended = python("import sitecustomize; print(sitecustomize.colour)")
    assert (ended.stdout, ended.stderr) == ("mine\nred\n", "")


def test_what_the_users_own_sitecustomize_raises_is_told_as_always(python):
    (python.own / "sitecustomize.py").write_text("1 / 0")
    armed, plain_ = (python("print('on')", armed=each) for each in (True, False))
    assert (armed.stdout, armed.stderr) == (plain_.stdout, plain_.stderr)
    assert "ZeroDivisionError" in armed.stderr


def test_without_a_request_nothing_is_done(python):
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; print([type(each).__name__ for each in sys.meta_path])"],
        env={**os.environ, "PYTHONPATH": str(ARM)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Waiting" not in ended.stdout


@pytest.mark.parametrize("asked", ["", "{", json.dumps({"folder": "/nowhere"})])
def test_a_request_that_is_none_hurts_nobody(python, monkeypatch, asked):
    (python.own / "torch.py").write_text("whole = True")
    ended = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.whole)"],
        env={**os.environ, "PYTHONPATH": f"{ARM}{os.pathsep}{python.own}", ASKED: asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("True\n", "")


def test_where_the_audit_cannot_begin_the_script_goes_on_and_the_audit_is_told(python):
    (python.own / "torch.py").write_text("whole = True")
    ended = python("import torch, sys; print(torch.whole, sys.meta_path)")
    assert ended.stdout.startswith("True")
    assert "Waiting" not in ended.stdout
    assert ended.stderr == ""
    (told,) = python.told.iterdir()
    assert told.suffix == ".failed"
    assert "torch" in told.read_text()


def test_a_module_of_the_users_that_is_called_as_we_are_stays_his(python):
    (python.own / "torch.py").write_text("whole = True")
    (python.own / "truestep.py").write_text("whose = 'mine'")
    ended = python("import truestep, torch; print(truestep.whose)")
    assert (ended.stdout, ended.stderr) == ("mine\n", "")
    (told,) = python.told.iterdir()
    assert "ModuleNotFoundError" in told.read_text()


def test_the_audit_begins_once_torch_is_whole_and_not_when_its_import_failed(python):
    (python.own / "torch.py").write_text("import builtins, os\nassert hasattr(builtins, 'ready')\nassert not os.listdir(FOLDER)")
    text = (python.own / "torch.py").read_text().replace("FOLDER", repr(str(python.told)))
    (python.own / "torch.py").write_text(text)
    program = f"""
import builtins, os
try:
    import torch
except AssertionError:
    print("failed", os.listdir({str(python.told)!r}))
builtins.ready = True
import torch
print(len(os.listdir({str(python.told)!r})), torch.__spec__.loader.exec_module.__qualname__)
"""
    ended = python(program)
    assert ended.stderr == ""
    assert ended.stdout == "failed []\n1 _LoaderBasics.exec_module\n"


def test_a_python_without_torch_says_so_as_always(python):
    program = "import sys; sys.path = []; import torch"
    armed, plain_ = (python(program, armed=each) for each in (True, False))
    assert armed.stderr == plain_.stderr
    assert "No module named 'torch'" in armed.stderr


def test_the_file_is_alone_in_its_folder():
    names = {path.name for path in Path(ARM).iterdir()} - {"__pycache__"}
    assert names == {"sitecustomize.py"}  # whatever else were there could be imported by every script
