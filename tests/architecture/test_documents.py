"""What a page shows is run: docstring examples, and the blocks of README.md, CONTRIBUTING.md and docs/**/*.md.

How a page's fenced blocks are read, from top to bottom, in one empty folder and one namespace per page:

    ```python          is executed; a ```text block right below it is what it prints
    ```python sketch   is not executed: an outline, in docs/design.md alone
    ```console         each line that begins with `$ ` is run by sh, and the lines below it are what it writes on stdout
                       (`2>&1` adds stderr, `echo $?` shows the exit code); a command fails only if the next one asks for $?
    ```console full    likewise, in the full profile alone: the quick one has a minute for all pages, in which `python` and
                       `truestep` begin with torch imported
    any other          is not run

A python block whose first line is `# NAME.py` is written to that file, for the commands below it. `...` in what is shown
stands for anything, as in a docstring.
"""

import contextlib
import doctest
import importlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import ready
from tests.profile import FULL

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for file in SOURCE.rglob("*.py")
)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SKETCHES_ALLOWED = {"design.md"}


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block: the words after its fence, its text, and the number of its first line."""

    info: str
    text: str
    line: int
    follows: bool  # nothing but one blank line, or none, stands between it and the block above


def blocks(page):
    """The fenced blocks of a page's text, in order."""
    found, end = [], 0
    for match in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", page, re.MULTILINE):
        follows = not page[end : match.start()].strip() and page[end : match.start()].count("\n") <= 2
        line = page.count("\n", 0, match.start(2)) + 1
        found.append(Block(info=match[1].strip(), text=match[2], line=line, follows=bool(found) and follows))
        end = match.end()
    return found


def same(shown, got):
    """Whether output is what the page shows, `...` standing for anything and spaces at line ends for nothing."""
    shown, got = ("".join(line.rstrip() + "\n" for line in text.rstrip().splitlines()) for text in (shown, got))
    return doctest.OutputChecker().check_output(shown, got, doctest.ELLIPSIS)


def executed(block, name, namespace):
    """What a python block prints."""
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, name, "exec", dont_inherit=True)
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)  # the page's own code is what is tested
    return printed.getvalue()


def typed(block, folder):
    """(command, what the page shows, what sh wrote on stdout, exit code) of each command of a console block."""
    commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not commands[0].strip(), f"line {block.line}: a console block begins with `$ `"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    begun = {"env": {**os.environ, "PATH": path}} if FULL else ready.for_sh()
    environment, code = begun["env"] | {"NO_COLOR": "1"}, 0
    for command, _, shown in (each.partition("\n") for each in commands[1:]):
        ended = subprocess.run(
            ["sh", "-c", f"(exit {code}); {command}"],
            cwd=folder,
            **begun | {"env": environment},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        code = ended.returncode
        yield command, shown, ended.stdout, code


def faults(page, name, folder, *, full=FULL):
    """Each difference between what a page shows and what happens in `folder`, as text."""
    namespace, printed, failed = {"__name__": "__main__"}, None, None
    for block in blocks(page):
        language, _, mark = block.info.partition(" ")
        if language == "text" and printed is not None and block.follows and not same(block.text, printed):
            yield f"{name}:{block.line} shows\n{block.text}but what is printed is\n{printed}"
        printed = None
        file = re.match(r"# (\w+\.py)\n", block.text)
        if language == "python" and mark == "sketch":
            if name not in SKETCHES_ALLOWED:
                yield f"{name}:{block.line} is a sketch, which is for the design alone"
        elif language == "python" and file:
            (folder / file[1]).write_text(block.text)
        elif language == "python":
            printed = executed(block, name, namespace)
        elif language == "console" and (full or mark != "full"):
            for command, shown, got, code in typed(block, folder):
                if failed and "$?" not in command:
                    yield failed
                failed = f"{name}:{block.line} `{command}` ends with {code}" if code else None
                if not same(shown, got):
                    yield f"{name}:{block.line} `{command}` shows\n{shown}but writes\n{got}"
    if failed:
        yield failed


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_what_happens(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert list(faults(page.read_text(), page.name, tmp_path)) == []


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "p.md:6 shows\n2\nbut what is printed is\n1\n"),
        ("```python\nx = 2\n```\nand\n```python\nprint(x)\n```\n```text\n1\n```\n", "what is printed is\n2\n"),
        ("```console\n$ echo a\nb\n```\n", "p.md:2 `echo a` shows\nb\nbut writes\na\n"),
        ("```console\n$ exit 3\n```\n", "`exit 3` ends with 3"),
        ("```console\n$ exit 3\n$ echo $?\n4\n```\n", "`echo $?` shows\n4\nbut writes\n3\n"),
        ("```python\n# a.py\nprint(1)\n```\n```console\n$ python a.py\n2\n```\n", "`python a.py` shows\n2\nbut writes\n1\n"),
        ("```python sketch\nanything\n```\n", "is a sketch"),
    ],
)
def test_a_page_that_lies_is_found_out(page, complaint, tmp_path):
    (found,) = faults(page, "p.md", tmp_path)
    assert complaint in found


def test_a_python_block_that_fails_says_where():
    with pytest.raises(ZeroDivisionError) as raised:
        list(faults("# Title\n\n```python\n1 / 0\n```\n", "p.md", None))
    assert (str(raised.traceback[-1].path), raised.traceback[-1].lineno + 1) == ("p.md", 4)


def test_a_page_that_tells_the_truth_passes(tmp_path):
    page = "```python\nx = 1\n```\n```python\nprint(x, id(x))\n```\n\n```text\n1 ...\n```\n\n```sh\nrm -rf /tmp/nothing\n```\n"
    page += "```python\n# a.py\nimport sys\nsys.exit('no')\n```\n\n```console\n$ python a.py 2>&1\nno\n$ echo $?\n1\n```\n"
    assert list(faults(page, "p.md", tmp_path)) == []


def test_a_block_for_the_full_profile_is_run_there_alone(tmp_path):
    page = "```console full\n$ echo a\nb\n```\n"
    assert [len(list(faults(page, "p.md", tmp_path, full=full))) for full in (True, False)] == [1, 0]


def test_the_prose_between_a_block_and_a_text_makes_the_text_its_own(tmp_path):
    assert list(faults("```python\nprint(1)\n```\n\nElsewhere:\n\n```text\n2\n```\n", "p.md", tmp_path)) == []
