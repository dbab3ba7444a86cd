"""A task's code is told apart by its digest, wherever it stands."""

import sys
from pathlib import Path

import pytest

from truestep.compare.code import code_digest, source_files
from truestep.tasks import load

TASK = """
import {near}
from truestep.tasks import Digits

class Own(Digits):
    def model(self):
        return {near}.model()

def make():
    return Digits()
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a task's file and its neighbour into a folder; returns FILE.py. The neighbour's module is forgotten at the end."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = []

    def write(folder="a", near="near_of_code", text="def model():\n    pass\n"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{near}.py").write_text(text)
        file = tmp_path / folder / "own_task.py"
        file.write_text(TASK.format(near=near))
        sys.modules.pop(near, None)
        names.append(near)
        return str(file)

    yield write
    for name in names:
        sys.modules.pop(name, None)


def digest_of(asked):
    return code_digest(load(asked), asked)


def test_a_built_in_task_is_its_module_and_what_that_imports_from_its_folder():
    names = {path.name for path in source_files(load("digits"), "digits")}
    assert {"digits.py", "task.py"} <= names
    assert not {path.name for path in source_files(load("digits"), "digits") if path.parent.name != "tasks"}


def test_the_same_code_in_another_folder_has_the_same_digest(written):
    assert digest_of(f"{written('a')}:Own") == digest_of(f"{written('b')}:Own")


def test_an_edit_of_a_neighbour_that_the_file_imports_is_seen(written):
    before = digest_of(f"{written()}:Own")
    edited = written(text="def model():\n    return None\n")
    assert digest_of(f"{edited}:Own") != before


def test_a_file_that_nobody_imports_does_not_count(written):
    asked = f"{written()}:Own"
    before = digest_of(asked)
    (Path(asked).parent / "other.py").write_text("x = 1\n")
    assert digest_of(asked) == before


def test_a_factory_of_a_built_in_task_counts_with_its_file(written):
    asked = f"{written()}:make"
    before = digest_of(asked)
    with open(asked.removesuffix(":make"), "a") as file:
        file.write("\n# edited\n")
    assert digest_of(asked) != before
    assert {"own_task.py", "digits.py"} <= {path.name for path in source_files(load(asked), asked)}
