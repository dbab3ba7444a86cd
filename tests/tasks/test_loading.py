"""A task is found, or refused with the line at fault and what there is instead."""

import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from truestep.errors import RunError, TaskError
from truestep.tasks import NAMES, Task, load

WriteTask = Callable[..., str]


def line_with(path: str, words: str) -> int:
    """The number of the first line that holds `words`."""
    return next(number for number, line in enumerate(Path(path).read_text().splitlines(), start=1) if words in line)


def test_every_built_in_name_is_a_task_of_that_name() -> None:
    assert NAMES
    assert all(load(name).name == name for name in NAMES)


@pytest.mark.parametrize("asked", ["digit", "", "digits:x", "mine.txt:Line"])
def test_an_unknown_name_is_refused_with_the_names_there_are(asked: str) -> None:
    with pytest.raises(TaskError, match="no task is called") as caught:
        load(asked)
    assert "digits" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("extra", "name"),
    [("", "Line"), ("line = Line()", "line"), ("def make():\n    return Line()", "make"), ("made = lambda: Line()", "made")],
)
def test_a_class_an_instance_and_a_factory_are_tasks(write_task: WriteTask, extra: str, name: str) -> None:
    task = load(f"{write_task(extra)}:{name}")
    assert isinstance(task, Task)
    assert task.name == "line"
    assert len(task.splits().train) == 4


def test_the_file_runs_under_a_private_name_and_leaves_the_import_path(write_task: WriteTask) -> None:
    before = list(sys.path)
    task = load(f"{write_task()}:Line")
    assert sys.path == before
    assert "mine" not in sys.modules
    assert type(task).__module__.startswith("truestep_task_mine_")
    assert isinstance(pickle.loads(pickle.dumps(task)), type(task))


def test_the_files_neighbours_can_be_imported(write_task: WriteTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "neighbour_of_mine.py").write_text("SIZE = 32\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = write_task("import neighbour_of_mine\nLine.batch = neighbour_of_mine.SIZE\n")
    assert load(f"{path}:Line").batch == 32
    del sys.modules["neighbour_of_mine"]


def test_a_changed_file_is_read_anew(write_task: WriteTask) -> None:
    assert load(f"{write_task()}:Line").batch == 4
    assert load(f"{write_task('Line.batch = 6')}:Line").batch == 6


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"there is no file .*absent\.py"):
        load(f"{tmp_path}/absent.py:Line")


@pytest.mark.parametrize("end", ["", ":", ":Lime"])
def test_a_missing_name_is_refused_with_the_tasks_in_the_file(write_task: WriteTask, end: str) -> None:
    with pytest.raises(TaskError, match=r"names no task|holds no 'Lime'") as caught:
        load(write_task() + end)
    assert "tasks in it: Line;" in str(caught.value.hint)


@pytest.mark.parametrize("extra", ["thing = 7", "def thing():\n    return 'Line'", "class thing:\n    pass"])
def test_what_is_no_task_is_refused_by_its_type(write_task: WriteTask, extra: str) -> None:
    with pytest.raises(TaskError, match=r"thing is a (int|str|thing), no task"):
        load(f"{write_task(extra)}:thing")


@pytest.mark.parametrize(
    ("extra", "at", "cause"),
    [
        ("def broken(:", "def broken(:", SyntaxError),
        ("import a_module_that_is_not_there", "a_module_that", ModuleNotFoundError),
        ("raise KeyError('at import')", "raise KeyError", KeyError),
        ("import sys\nsys.exit(4)", "sys.exit(4)", SystemExit),
        ("class Line(Line):\n    def __init__(self):\n        1 / 0", "1 / 0", ZeroDivisionError),
        ("class Line(Line):\n    def __init__(self):\n        torch.zeros(2).view(3)", "view(3)", RuntimeError),
        ("class Line(Line):\n    def __init__(self, size):\n        pass", None, TypeError),
    ],
)
def test_the_files_own_failure_is_chained_and_its_line_named(
    write_task: WriteTask, extra: str, at: str | None, cause: type[BaseException]
) -> None:
    path = write_task(extra)
    with pytest.raises(RunError, match=cause.__name__) as caught:
        load(f"{path}:Line")
    assert isinstance(caught.value.__cause__, cause)
    if at is not None:
        assert str(caught.value).startswith(f"{path}:{line_with(path, at)}")


def test_a_file_that_failed_leaves_no_module(write_task: WriteTask) -> None:
    before = set(sys.modules)
    with pytest.raises(RunError):
        load(f"{write_task('raise ValueError')}:Line")
    assert {name for name in set(sys.modules) - before if name.startswith("truestep_task_")} == set()


def test_missing_methods_are_named_with_the_class_and_its_line(write_task: WriteTask) -> None:
    path = write_task(source="from truestep.tasks import Task\n\n\nclass Half(Task):\n    def model(self):\n        pass\n")
    with pytest.raises(TaskError, match=re.escape(f"{path}:4: task Half lacks the method loss, optimizer, quality, splits")):
        load(f"{path}:Half")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("del Line.name", "does not say its name"),
        ("del Line.batch", "does not say its batch"),
        ("del Line.updates", "does not say its updates"),
        ("del Line.quality_name", "does not say its quality_name"),
        ("Line.name = ''", "Line.name is ''"),
        ("Line.batch = 0", "Line.batch is 0"),
        ("Line.batch = 2.0", "Line.batch is 2.0"),
        ("Line.batch = True", "Line.batch is True"),
        ("Line.updates = -1", "Line.updates is -1"),
        ("Line.microbatches = 5", "Line.microbatches is 5"),
        ("Line.evaluate_every = 0", "Line.evaluate_every is 0"),
        ("Line.quality_better = 'more'", "Line.quality_better is 'more'"),
        ("Line.target = float('nan')", "Line.target is nan"),
        ("Line.target = 'high'", "Line.target is 'high'"),
    ],
)
def test_a_number_that_cannot_be_is_refused_at_the_class(write_task: WriteTask, change: str, words: str) -> None:
    path = write_task(change)
    with pytest.raises(TaskError, match=re.escape(words)) as caught:
        load(f"{path}:Line")
    assert str(caught.value).startswith(f"{path}:{line_with(path, 'class Line')}: ")
