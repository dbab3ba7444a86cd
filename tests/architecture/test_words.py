"""A folder is an idea, and the library never prints."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_IDEA = {"util", "utils", "helper", "helpers", "common", "misc"}


def named_for_nothing(root, folders=("src", "tests", "docs", "examples", "benchmarks")):
    """Each folder or module whose name says only that something had to go somewhere."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.stem in NO_IDEA and (path.is_dir() or path.suffix == ".py"):
                yield str(path.relative_to(root))


def prints(package):
    """Each place outside cli/ that writes on the process's output."""
    for file in sorted(package.rglob("*.py")):
        if file.relative_to(package).parts[0] == "cli":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write"):
                yield f"{file.relative_to(package)}:{node.lineno} {ast.unparse(node.func)}"


def test_no_folder_or_module_is_named_for_nothing():
    assert list(named_for_nothing(ROOT)) == []


def test_only_the_command_line_prints():
    assert list(prints(ROOT / "src" / "truestep")) == []


@pytest.mark.parametrize("path", ["src/truestep/utils/a.py", "tests/helpers.py", "docs/misc/page.md"])
def test_a_name_without_an_idea_is_found(tmp_path, path):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("")
    assert len(list(named_for_nothing(tmp_path))) == 1


def test_a_print_is_found_wherever_it_stands(tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "a.py").write_text("print(1)")
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "a.py").write_text("def f():\n    print(1)\n    sys.stderr.write('x')\n# print(2)\n'print(3)'")
    assert list(prints(tmp_path)) == ["engine/a.py:2 print", "engine/a.py:3 sys.stderr.write"]
