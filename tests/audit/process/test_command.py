"""A command that cannot run is refused with its line before anything is started."""

import py_compile
import zipapp

import pytest

from truestep.audit.process.command import checked
from truestep.errors import RunError, UsageError


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to write scripts in, where a command is given."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def package(folder, **texts):
    for name, text in {"__init__": "raise AssertionError('a package is not imported to look at it')", **texts}.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize(
    ("command", "module", "complaint"),
    [
        ([], False, "there is no script to audit"),
        (["nowhere.py", "--fast"], False, "there is no script nowhere.py"),
        (["folder"], False, "there is no script folder/__main__.py"),
        (["no_such_package.train"], True, "there is no module no_such_package"),
    ],
)
def test_what_is_not_there_is_refused(here, command, module, complaint):
    (here / "folder").mkdir()
    with pytest.raises(UsageError) as raised:
        checked(command, module=module)
    assert raised.value.summary == complaint


@pytest.mark.parametrize(
    ("name", "module"), [("train.py", False), ("folder", False), ("train", True), ("package", True), ("package.inner", True)]
)
def test_what_is_no_python_is_refused_with_its_line(here, name, module):
    wrong = "x = 1\nfor x in\n"
    (here / "train.py").write_text(wrong)
    package(here / "folder", __main__=wrong)
    package(here / "package", __main__=wrong, inner=wrong)
    with pytest.raises(RunError, match=r":2: invalid syntax") as raised:
        checked([name], module=module)
    assert raised.value.line == 2
    assert raised.value.path.endswith(".py")


def test_bytes_that_are_no_text_are_refused(here):
    (here / "train.py").write_bytes(b"x = '\xff'\n")
    with pytest.raises(RunError, match=r"train\.py"):
        checked(["train.py"], module=False)


@pytest.mark.parametrize(
    ("command", "module", "arguments"),
    [
        (["train.py", "-m", "x"], False, ["train.py", "-m", "x"]),
        (["folder"], False, ["folder"]),
        (["package", "--fast"], True, ["-m", "package", "--fast"]),
        (["package.inner"], True, ["-m", "package.inner"]),
        (["json.tool"], True, ["-m", "json.tool"]),
        (["train.pyc"], False, ["train.pyc"]),
        (["train.pyz"], False, ["train.pyz"]),
    ],
)
def test_what_python_runs_is_passed_on_as_it_is(here, command, module, arguments):
    (here / "train.py").write_text("x = '\\d'\n")  # of which python warns by itself
    package(here / "folder", __main__="")
    package(here / "package", __main__="", inner="")
    py_compile.compile(str(here / "folder" / "__main__.py"), str(here / "train.pyc"), doraise=True)
    zipapp.create_archive(here / "folder", here / "train.pyz")
    assert checked(command, module=module) == arguments
