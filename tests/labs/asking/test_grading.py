"""What was measured is right; of what was not, it is said why it tempts; what cannot be read is no answer."""

import math
from datetime import date, timedelta

import pytest

from tests.labs.asking.made import ASKS, LAB, RIGHT, WRONG
from tests.profile import FULL
from truestep.errors import UsageError
from truestep.labs.asking.faults import Fault, Faults, faults
from truestep.labs.asking.grading import grade
from truestep.labs.asking.milestones import Report
from truestep.labs.asking.order import chosen, mixed
from truestep.labs.asking.reading import read_confidence, read_line

SHOWN = LAB.run()


@pytest.mark.parametrize("key", RIGHT)
def test_what_was_measured_is_right(key):
    graded = grade(ASKS[key], RIGHT[key], SHOWN)
    assert graded.share == 1
    assert graded.right is (None if key == "open" else True)


@pytest.mark.parametrize("key", WRONG)
def test_all_else_is_wrong_and_parts_that_are_right_count(key):
    graded = grade(ASKS[key], WRONG[key], SHOWN)
    assert graded.share < 1
    assert graded.right is (None if key == "open" else False)
    assert graded.points == {"out": 1, "bits": 1, "spread": 1, "name": 1, "buckets": 2, "open": 1}.get(key, 0)


@pytest.mark.parametrize("key", RIGHT)
def test_a_graded_answer_read_again_is_graded_alike(key):
    once = grade(ASKS[key], RIGHT[key], SHOWN)
    assert grade(ASKS[key], once.answer, SHOWN) == once


def test_a_tempting_number_is_answered_first_and_the_others_told_too():
    assert [words.split(":")[0] for words in grade(ASKS["number"], 1, SHOWN).words] == ["It is 0.2 m. unscaled first", "Your 1 m"]
    assert grade(ASKS["number"], 7, SHOWN).words[-1] == "Tempting 1 m: the limit is not what passes"


def test_letters_are_those_of_the_order_in_which_options_stood():
    order = ("nothing", "its length", "its direction")
    assert grade(ASKS["choice"], "b", SHOWN, options=order).right
    assert not grade(ASKS["choice"], "a", SHOWN, options=order).right
    assert grade(ASKS["choice"], "its l", SHOWN, options=order).right


def test_of_a_choice_the_wrong_ones_are_answered_in_the_labs_own_order_whichever_was_taken():
    words = grade(ASKS["choice"], "nothing", SHOWN).words
    assert words == (
        "Right is its length: too short",
        "Not its direction: tempting, for value clips bend",
        "Not nothing: tempting, for it learns",
    )


def test_ruling_out_counts_the_wrong_ones_before_the_right_one():
    graded = grade(ASKS["out"], ["its length", "nothing"], SHOWN)
    assert (graded.points, graded.total, graded.right) == (0, 2, False)
    assert grade(ASKS["out"], "its length", SHOWN).right, "a text alone is what is left"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("number", "much"),
        ("number", True),
        ("number", None),
        ("choice", "d"),
        ("choice", "its"),
        ("choice", 1),
        ("out", ["nothing"]),
        ("out", ["nothing", "nothing"]),
        ("bits", ["10"]),
        ("bits", ["10", "many"]),
        ("spread", ["1 2", "a b"]),
        ("buckets", {"matmul": "low"}),
        ("buckets", ["low"]),
        ("find", 99),
        ("find", 0),
        ("find", 1.5),
        ("open", "  "),
        ("open", {"text": "a", "points": [True]}),
        ("open", {"text": "a", "points": 2}),
    ],
)
def test_what_cannot_be_read_says_what_can(key, words):
    with pytest.raises(UsageError) as raised:
        grade(ASKS[key], words, SHOWN, found=Faults(faults=()) if key == "find" else None)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("words", "shown"), [(None, "null"), (True, "true"), ([1], "[1]"), ("a lot", "'a lot'"), (math.nan, "NaN")]
)
def test_what_cannot_be_read_is_shown_as_it_was_written(words, shown):
    with pytest.raises(UsageError) as raised:
        grade(ASKS["number"], words, SHOWN)
    assert raised.value.summary == f"{shown} cannot be read as a number"


def test_words_that_nobody_has_graded_have_no_points():
    graded = grade(ASKS["open"], "this", SHOWN)
    assert (graded.points, graded.share, graded.right, graded.verdict) == (None, None, None, "not graded yet")


def test_a_line_is_right_where_the_audit_reports():
    found = Faults(faults=tuple(Fault(line=6, words=words) for words in ("never cleared", "twice as large")))
    assert grade(ASKS["find"], "line 6", SHOWN, found=found).right
    graded = grade(ASKS["find"], 7, SHOWN, found=found)
    assert not graded.right
    told = "The audit reports line 6: loss.backward()\n  - never cleared\n  - twice as large"
    assert graded.words[0] == told, "a line that has two faults stands there once"


@pytest.mark.skipif(not FULL, reason="takes seconds; a session of tests/cli/test_labs.py asks the real audit always")
def test_a_real_audit_finds_the_line_and_runs_once():
    found = faults(ASKS["find"].script)
    assert {ASKS["find"].script.splitlines()[line - 1].strip() for line in found.lines} <= {"loss.backward()", "optimizer.step()"}
    assert faults(ASKS["find"].script) is found


def test_a_built_loop_is_right_where_its_report_is():
    for passed in (True, False):
        report = Report(milestone="1", passed=passed, off=() if passed else ("it never moved",))
        graded = grade(ASKS["build"], "loop.py", SHOWN, found=report)
        assert graded.right is passed
        assert "never moved" in graded.words[0] or passed


def test_a_confidence_is_one_of_five():
    assert [read_confidence(each) for each in (1, "5", " 3 ")] == [1, 5, 3]
    for words in (0, 6, "2.5", True, "sure", None):
        with pytest.raises(UsageError):
            read_confidence(words)
    assert read_line(3.0, "a\nb\nc") == 3


def test_the_order_changes_by_the_day_and_every_place_comes_by():
    days = [date(2026, 1, 1) + timedelta(days=count) for count in range(60)]
    firsts = [mixed("abcd", name="lab/key", day=day)[0] for day in days]
    assert {firsts.count(letter) > 5 for letter in "abcd"} == {True}
    assert mixed("abcd", name="lab/key", day=days[0]) == mixed("abcd", name="lab/key", day=days[0])
    assert len({mixed("abcd", name=f"lab/{key}", day=None) for key in range(20)}) > 5


def test_a_text_that_is_a_letter_is_meant_before_the_letter():
    assert chosen("b", ["b", "a"]) == "b"
    assert chosen("c", ["x", "y"]) is None
    assert chosen("", ["x"]) is None
