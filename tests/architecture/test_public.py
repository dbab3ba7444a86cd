"""What is public is documented: each page that a script in docs/ writes is what it writes, and no name is without words."""

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import truestep

DOCS = Path(__file__).parents[2] / "docs"


WRITTEN = ("reference", "commands", "formats", "lessons")


def writer(name):
    """The module docs/NAME.py, which stands outside the package."""
    spec = importlib.util.spec_from_file_location(f"_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return writer("reference")


def documented(page):
    """The public names that a page has a section for."""
    return set(re.findall(r"^### truestep\.(\w+)$", page, re.MULTILINE))


def test_the_public_names_are_the_documented_ones():
    assert documented((DOCS / "reference.md").read_text()) == set(truestep.__all__)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_page_is_what_its_script_writes(name):
    """`make reference` renews it."""
    assert (DOCS / f"{name}.md").read_text() == writer(name).text()


def test_make_reference_writes_every_such_page():
    written = re.search(r"for page in (.*?);", (DOCS.parent / "Makefile").read_text())[1].split()
    assert set(written) == set(WRITTEN) == {file.stem for file in DOCS.glob("*.py") if "PAGE = " in file.read_text()}


def test_a_lesson_without_a_lab_says_so(monkeypatch):
    lessons = writer("lessons")
    monkeypatch.setattr(lessons, "labs", lambda: ())
    assert lessons.text().count("| none yet |") == len(lessons.LESSONS)


@pytest.mark.parametrize("name", sorted(truestep.__all__))
def test_a_public_name_exists_and_has_words(name):
    thing = getattr(truestep, name)
    assert inspect.getdoc(thing)
    assert not inspect.getdoc(thing).startswith(f"{name}("), "a dataclass without a docstring has its signature for one"


def test_a_name_that_is_not_documented_is_found(reference, monkeypatch):
    monkeypatch.setattr(truestep, "__all__", [*truestep.__all__, "unheard_of"])
    monkeypatch.setattr(truestep, "unheard_of", documented, raising=False)
    assert (DOCS / "reference.md").read_text() != reference.text()
    assert documented((DOCS / "reference.md").read_text()) != set(truestep.__all__)
    assert documented(reference.text()) == set(truestep.__all__)


class Kept:
    """A class to describe."""

    def __init__(self, one: "int", *, two: "str | None" = None):
        pass

    @property
    def size(self) -> "int":
        """A size."""

    def grown(self, by: "int" = 1) -> "Kept":
        """A larger one."""

    def _hidden(self):
        """Not shown."""


def test_a_class_is_shown_with_its_public_members(reference):
    shown = "\n".join(reference.entry("Kept", Kept))
    assert "Kept(one: int, *, two: str | None = None)\n\nA class to describe." in shown
    assert "Kept.size\n\nA size." in shown
    assert "Kept.grown(by: int = 1) -> Kept\n\nA larger one." in shown
    assert "hidden" not in shown


def test_the_front_door_does_not_wait_for_torch():
    """`truestep --help`, and every run of pytest where truestep is installed, go by it."""
    code = "import sys, truestep, truestep.audit.pytest_plugin, truestep.cli; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_told_to_type_checkers_too():
    tree = ast.parse(Path(truestep.__file__).read_text())
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    assert {alias.name for node in typed.body for alias in node.names} == set(truestep.__all__)
