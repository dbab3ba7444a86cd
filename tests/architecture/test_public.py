"""What is public is documented: docs/reference.md is what docs/reference.py writes, and nothing in it is without words."""

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


@pytest.fixture(scope="module")
def reference():
    """The module docs/reference.py, which stands outside the package."""
    spec = importlib.util.spec_from_file_location("_reference", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documented(page):
    """The public names that a page has a section for."""
    return set(re.findall(r"^### truestep\.(\w+)$", page, re.MULTILINE))


def test_the_public_names_are_the_documented_ones():
    assert documented((DOCS / "reference.md").read_text()) == set(truestep.__all__)


def test_the_page_is_what_its_script_writes(reference):
    """`make reference` renews it."""
    assert (DOCS / "reference.md").read_text() == reference.text()


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
