"""A sheet holds every question and no answer; a file of answers is held against what is asked."""

import json
import subprocess
import sys

import pytest

from tests.labs.asking.made import ASKS, LAB
from truestep.errors import FileError, UsageError
from truestep.labs.asking.answers import read_answers
from truestep.labs.asking.sheet import by_lab, demand_asked, exercises, options, question

ASKED = exercises((LAB,))


def sheet(key):
    return question(f"made/{key}", LAB, ASKS[key], LAB.run())


@pytest.mark.parametrize("key", ASKS)
def test_a_question_says_what_to_write_and_tells_no_reason(key):
    asked = sheet(key)
    assert asked["prompt"] == ASKS[key].prompt
    assert asked["write"]
    text = json.dumps(asked, allow_nan=False)
    for told in ("tempting", "unscaled first", "too short", "never cleared", "it grows", "says this", "this and that", "count"):
        assert told not in text


def test_a_column_is_blank_and_the_others_are_not():
    asked = sheet("bits")
    assert asked["rows"] == [["half", None, [1.0, 2.0], "float16"], ["single", None, [0.5, 4.0], "float32"]]


def test_a_choice_has_its_options_in_the_order_of_a_sheet():
    assert tuple(sheet("choice")["options"].values()) == options("made/choice", ASKS["choice"], None)
    assert list(sheet("choice")["options"]) == ["a", "b", "c"]


def test_a_building_exercise_brings_its_file():
    assert "def train(" in sheet("build")["skeleton"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no object"),
        ('{"made/numbr": {"answer": 1}}', "made/numbr"),
        ('{"made/number": 1}', "no answer under"),
        ('{"made/number": {"confidence": 1}}', "no answer under"),
        ('{"made/number": {"answer": 1, "confidense": 3}}', "'confidense' under 'made/number', which is not read"),
        ('{"made/number": {"answer": 1}, "made/number": {"answer": 2}}', "'made/number' twice"),
        ('{"made/number": {"answer": 1, "answer": 2}}', "'answer' twice"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_file_of_answers_is_a_usage_error(tmp_path, content, said):
    path = tmp_path / "answers.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=said) as raised:
        demand_asked(path, read_answers(path), ASKED)
    assert raised.value.hint


def test_a_name_that_is_nearly_right_is_shown(tmp_path):
    path = tmp_path / "answers.json"
    path.write_text('{"made/numbr": {"answer": 1}}')
    with pytest.raises(UsageError) as raised:
        demand_asked(path, read_answers(path), ASKED)
    assert "made/number" in raised.value.hint


def test_no_file_is_told(tmp_path):
    with pytest.raises(FileError):
        read_answers(tmp_path / "none.json")


def test_a_file_of_answers_is_read_before_torch_is_imported():
    code = "import sys, truestep.cli.labs, truestep.labs.asking.answers; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_lab_is_run_once():
    runs = []
    shown = by_lab(lambda lab: runs.append(lab) or lab.run())
    assert shown(LAB) is shown(LAB)
    assert runs == [LAB]
