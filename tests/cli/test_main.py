"""The command line as a whole: endings and their exit codes, where words go, and the surface that users type."""

import dataclasses
import errno
import json
import os
import pkgutil
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import tyro

import truestep.cli
from tests import ready
from tests.no_room import NO_ROOM, no_room
from truestep.cli import commands, main
from truestep.errors import FileError, PolicyError, RunError

SURFACE = json.loads(Path(__file__).with_name("surface.json").read_text())


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A command that ends as it is told."""

    error: BaseException | None = None
    code: int = 0

    def run(self) -> int:
        if self.error is not None:
            raise self.error
        print("data")
        return self.code


@pytest.fixture
def ends(monkeypatch):
    """Makes `truestep ends` the only command, with a given ending; returns main's exit code."""

    def run(**ending):
        monkeypatch.setattr(tyro, "cli", lambda *_, **__: Ending(**ending))
        return main(["ends"])

    return run


def process(*arguments, **options):
    """`python -m truestep` in a process of its own, on plain pipes."""
    command = [sys.executable, "-m", "truestep", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("code", [0, 1])
def test_a_command_that_returns_gives_its_exit_code(ends, code, capsys):
    assert ends(code=code) == code
    assert capsys.readouterr() == ("data\n", "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PolicyError("no such precision"), 2),
        (FileError("no such file"), 3),
        (OSError(28, "No space left on device"), 3),
        (ZeroDivisionError("our fault"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_gives_the_exit_code_of_its_kind_and_prints_on_stderr_alone(ends, error, code, capsys):
    assert ends(error=error) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert str(error) in err


def test_an_error_is_shown_with_its_kind_its_facts_and_its_hint(ends, capsys):
    ends(error=PolicyError("compute=float16 with loss scaling off", hint="use scale=dynamic", compute="float16"))
    assert capsys.readouterr().err == (
        "PolicyError: compute=float16 with loss scaling off\n  compute: float16\nhint: use scale=dynamic\n"
    )


def test_a_chained_cause_is_named(ends, capsys):
    error = RunError("the task's loss failed")
    error.__cause__ = ValueError("shapes differ")
    ends(error=error)
    assert capsys.readouterr().err == "RunError: the task's loss failed\ncaused by ValueError: shapes differ\n"


def test_a_cause_that_the_error_tells_itself_is_not_told_twice(ends, capsys):
    error = RunError("task.py:3 in loss: PolicyError: no such precision", hint="use fp32")
    error.__cause__ = PolicyError("no such precision", hint="use fp32")
    ends(error=error)
    assert capsys.readouterr().err == "RunError: task.py:3 in loss: PolicyError: no such precision\nhint: use fp32\n"


def test_a_fault_of_our_own_shows_where(ends, capsys):
    ends(error=ZeroDivisionError("our fault"))
    err = capsys.readouterr().err
    assert 'test_main.py", line' in err
    assert "fault of truestep itself" in err


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_goes_to_stdout(arguments, capsys):
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert all(name in out for name in commands())
    assert err == ""


@pytest.mark.parametrize("arguments", [["no-such-command"], ["formats", "--no-such-option"]])
def test_words_that_mean_nothing_end_with_2_and_an_explanation_on_stderr(arguments, capsys):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert arguments[-1] in err


def test_the_version_is_the_installed_one(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "truestep 0.1.0\n"


def test_it_runs_as_a_module_with_the_same_exit_codes():
    assert process("--version").stdout == "truestep 0.1.0\n"
    assert process("no-such-command").returncode == 2


def test_a_reader_that_goes_away_ends_it_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    ended = ready.run("-m", "truestep", "formats", "--json", stdout=writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.parametrize("name", commands())
def test_the_words_that_users_type_are_the_frozen_ones(name, capsys, monkeypatch):
    """Whoever adds a command or an option adds it to surface.json; whoever takes one away breaks somebody's script."""
    monkeypatch.setenv("COLUMNS", "200")
    assert main([name, "--help"]) == 0
    assert typed(capsys.readouterr().out) == SURFACE.get(name)


def test_a_full_disk_is_named_once_and_ends_with_3(tmp_path):
    with open(tmp_path / "version", "w") as full, no_room():
        command = [sys.executable, "-m", "truestep", "--version"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (3, f"OSError: [Errno {errno.EFBIG}] {NO_ROOM}\n")


def test_no_frozen_command_is_gone():
    assert set(SURFACE) <= set(commands())


@pytest.mark.parametrize(("name", "command"), commands().items())
def test_every_command_is_a_frozen_dataclass_with_help_and_json(name, command):
    assert dataclasses.is_dataclass(command)
    assert command.__dataclass_params__.frozen
    assert not command.__doc__.startswith("Command("), "a dataclass without a docstring has its signature for one"
    assert "--json" in SURFACE.get(name, [])


def typed(text):
    """What a help page says can be typed: the first word of each entry in its boxes, as --option or METAVAR."""
    entries = (re.match(r"\W (?:-\w, )?(--[\w-]+|[A-Z][A-Z-]*)", line) for line in text.splitlines())
    return [entry[1] for entry in entries if entry and entry[1] != "--help"]


def test_files_that_begin_with_an_underscore_are_no_commands():
    assert "_output" in {each.name for each in pkgutil.iter_modules(truestep.cli.__path__)}
    assert not [name for name in commands() if name.startswith("_")]
