"""The file that a user begins with runs as it stands, takes nobody's place, and is whole or not there."""

import json
from pathlib import Path

import pytest

from tests.no_room import NO_ROOM, no_room
from truestep.cli import main
from truestep.cli.tasks import Command
from truestep.errors import FileError, UsageError
from truestep.run import Settings, train
from truestep.tasks import load
from truestep.tasks.starting import write_starting_file


def test_the_file_is_a_task_that_reaches_its_own_target(tmp_path: Path) -> None:
    task = load(write_starting_file(tmp_path / "my_task.py"))
    assert (type(task).__name__, task.name) == ("MyTask", "my-task")
    record = train(task, Settings(policy="bf16", device="cpu", threads=1), seed=0)
    assert (record.status, record.counts.skipped) == ("reached", 0)
    assert record.counts.completed < task.updates


@pytest.mark.parametrize("command", ["train", "compare"])
def test_the_commands_that_it_names_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    task = write_starting_file(tmp_path / "spirals.py")
    assert f"truestep {command} spirals.py:Spirals" in (tmp_path / "spirals.py").read_text()
    words = ["--candidates", "fp32", "--seeds", "1"] if command == "compare" else []
    monkeypatch.chdir(tmp_path)
    code = main([command, task, *words, "--budget-attempts", "12", "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert json.loads(out)


def test_its_bare_words_are_those_of_the_task_protocol_only(tmp_path: Path) -> None:
    write_starting_file(tmp_path / "a.py")
    text = (tmp_path / "a.py").read_text()
    assert not {"{cls}", "{name}", "{file}"} & set(text.split())
    assert not [word for word in ("autocast(", ".backward(", ".step(") if word in text]


@pytest.mark.parametrize("stem", ["2d", "class", "task", "été", "a-b", "_"])
def test_whatever_the_files_name_the_class_has_one(tmp_path: Path, stem: str) -> None:
    assert load(write_starting_file(tmp_path / f"{stem}.py")).name


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("mine")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere")
    for name in ("a.py", "dangling.py"):
        with pytest.raises(UsageError, match="is there already"):
            write_starting_file(tmp_path / name)
    assert (tmp_path / "a.py").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file or directory") as caught:
        write_starting_file(tmp_path / "no" / "a.py")
    assert caught.value.hint == "make its folder first"


def test_of_a_file_that_the_disk_does_not_take_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    with no_room(100), pytest.raises(FileError) as caught:
        write_starting_file(path)
    assert caught.value.summary == f"{path} cannot be written: {NO_ROOM}"
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_what_to_call_the_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a task.py"
    assert Command(words=("new", str(path))).run() == 0
    printed = capsys.readouterr()
    assert printed.out == f"{path}:ATask\n"
    assert f"truestep compare '{path}:ATask' --seeds 3" in printed.err
    path.unlink()
    assert Command(words=("new", str(path)), json=True).run() == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "task": f"{path}:ATask"}


@pytest.mark.parametrize("words", [("new",), ("old", "a.py"), ("new", "a.py", "b.py"), ("new", "a.txt")])
def test_other_words_are_refused_with_the_right_ones(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        Command(words=words).run()
    assert "truestep tasks new my_task.py" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []
