"""The update is one page, and a function is no longer than a page unless its def line says why."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = 60
UPDATE = ROOT / "src" / "truestep" / "engine" / "update.py"
# Every attempt by `update(window)` is these two methods, one below the other.
THE_PAGE = ("__call__", "_conclude")


def long_functions(folder):
    """Each function of more than a page whose def line does not end in `# long: <reason>`."""
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1
                _, _, reason = text.splitlines()[node.lineno - 1].partition("# long: ")
                if lines > PAGE and len(reason.split()) < 3:
                    yield f"{file.relative_to(folder)}:{node.lineno} {node.name} has {lines} lines"


def page_lines(text):
    """Lines from the first method of the page to the end of the last; AssertionError where they do not adjoin."""
    (update,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == "Update")
    names = [getattr(node, "name", None) for node in update.body]
    first = names.index(THE_PAGE[0])
    assert tuple(names[first : first + len(THE_PAGE)]) == THE_PAGE, "the methods of the page stand one below the other"
    return update.body[first + len(THE_PAGE) - 1].end_lineno - update.body[first].lineno + 1


@pytest.mark.parametrize("folder", ["src", "tests", "docs"])
def test_no_function_is_longer_than_a_page_without_a_reason(folder):
    assert list(long_functions(ROOT / folder)) == []


def test_the_update_is_one_page_of_a_short_file():
    text = UPDATE.read_text()
    assert page_lines(text) <= PAGE
    assert len(text.splitlines()) <= 250


def function(lines, comment=""):
    return f"def f():{comment}\n" + "    x = 1\n" * (lines - 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (function(60), []),
        (function(61), ["a.py:1 f has 61 lines"]),
        (function(61, "  # long: one table, a row a line"), []),
        (function(61, "  # long: because"), ["a.py:1 f has 61 lines"]),
        ("class A:\n    async def f(self):\n" + "        x = 1\n" * 60, ["a.py:2 f has 61 lines"]),
    ],
)
def test_the_check_of_functions_finds(tmp_path, text, found):
    (tmp_path / "a.py").write_text(text)
    assert list(long_functions(tmp_path)) == found


def test_the_check_of_the_page_counts_it_and_demands_that_it_is_one():
    call, conclude, other = (f"    def {name}(self):\n        x = 1\n" for name in (*THE_PAGE, "other"))
    assert page_lines("class Update:\n" + other + call + "\n" + conclude + other) == 5
    with pytest.raises(AssertionError):
        page_lines("class Update:\n" + call + other + conclude)
