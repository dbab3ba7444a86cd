"""Regions that disagree are named: an island at the crash, a region of another format at its entrance."""

import pytest

from tests.audit.rules.making import Telling, at, found
from truestep.audit.rules.nested_autocast import RULE

MISMATCH = "mat1 and mat2 must have the same dtype, but got Half and Float"


def test_a_crash_inside_of_an_island_is_named_where_the_formats_met():
    telling = Telling().tell("Autocast", at(18, function="forward"), enabled=False, outer="float16")
    assert found(RULE, telling.tell("Raised", at(14, (18, "forward"), function="route"), text=MISMATCH)) == [("error", 14)]


def test_a_crash_between_two_formats_is_named_at_the_inner_region():
    telling = Telling().tell("Autocast", at(17, function="forward"), dtype="bfloat16", outer="float16")
    text = "index_add_(): self (Half) and source (BFloat16) must have the same scalar type"
    assert found(RULE, telling.tell("Raised", at(20, function="forward"), text=text)) == [("error", 17)]


@pytest.mark.parametrize(
    "telling",
    [
        Telling().tell("Raised", at(14), text=MISMATCH),
        Telling().tell("Autocast", at(3, function="other"), enabled=False, outer="float16").tell("Raised", at(14), text=MISMATCH),
        Telling().tell("Autocast", at(3), enabled=False, outer="float16").tell("Raised", at(4), text="out of memory"),
        Telling().tell("Autocast", 3, enabled=False, outer="float16").backward().step(),
        Telling().tell("Autocast", 3, outer="float16").backward().step(),
    ],
    ids=["no island", "another function's", "another exception", "a harmless island", "the same format"],
)
def test_what_no_region_explains_is_no_finding(telling):
    assert found(RULE, telling) == []


def test_float16_inside_of_bfloat16_is_worse_where_values_were_lost():
    inner = {"dtype": "float16", "outer": "bfloat16"}
    assert found(RULE, Telling().tell("Autocast", 3, **inner).backward(carried="none").step()) == [("warning", 3)]
    telling = Telling().tell("Autocast", 3, **inner).tell("Overflowed", 5).backward(carried="none", finite=False).step()
    assert found(RULE, telling) == [("error", 3)]


def test_bfloat16_inside_of_float16_is_a_note():
    assert found(RULE, Telling().tell("Autocast", 3, dtype="bfloat16", outer="float16").backward().step()) == [("note", 3)]


def test_an_overflow_in_an_island_that_was_given_the_outer_format_is_named_where_it_overflows(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("with torch.autocast('cpu', enabled=False):\n    d = a @ b\nd = a @ b\n")
    for line, expected in ((2, [("error", 2)]), (3, [])):
        telling = Telling(script).tell("Autocast", 1, enabled=False, outer="float16").tell("Overflowed", line)
        assert found(RULE, telling) == expected
