"""Every error of ours that the command line may show says what to do."""

import ast
from pathlib import Path

import pytest

from truestep import errors

SOURCE = Path(errors.__file__).parent
ROOMS = ["audit", "cli", "compare", "ledger", "pages", "run", "stats"]


def without_hint(text):
    """Line and class of each error that is made without a hint."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            kind = getattr(errors, node.func.id, None)
            ours = isinstance(kind, type) and issubclass(kind, errors.TruestepError)
            if ours and "hint" not in [keyword.arg for keyword in node.keywords]:
                yield f"{node.lineno} {node.func.id}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_error_says_what_to_do(room):
    files = sorted((SOURCE / room).rglob("*.py"))
    assert files
    assert [f"{file.name}:{found}" for file in files for found in without_hint(file.read_text())] == []


def test_the_check_finds():
    text = "raise RunError('a')\nraise RunError('a', hint='b')\nraise ValueError('a')\nreturned = RecordError('a', path=1)\n"
    assert list(without_hint(text)) == ["1 RunError", "4 RecordError"]
