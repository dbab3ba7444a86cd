"""Numbers read in scaled units are named; those divided later, only tested for finiteness, or named by another rule are not."""

import math

import pytest

from tests.audit.rules.making import Telling, at, found
from truestep.audit.rules.metric_units import RULE


def told(tmp_path, text, **fields):
    script = tmp_path / "train.py"
    script.write_text(text)
    return Telling(script).tell("ScalerMade").tell("GradientRead", 1, **fields)


@pytest.mark.parametrize("of", ["gradient", "loss"])
def test_a_number_in_scaled_units_is_a_warning_where_it_is_read(tmp_path, of):
    assert found(RULE, told(tmp_path, "log(value.item())\n", of=of)) == [("warning", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "norm = value.item()\nlog(norm / scaler.get_scale())\n",
        "log(value.item() / scaler.get_scale())\n",
        "ok = math.isfinite(value.item())\n",
    ],
)
def test_what_is_divided_or_only_tested_is_right(tmp_path, text):
    assert found(RULE, told(tmp_path, text)) == []


def test_what_is_not_finite_has_no_units(tmp_path):
    assert found(RULE, told(tmp_path, "log(value.item())\n", value=math.inf)) == []


def test_a_penalty_has_a_rule_of_its_own(tmp_path):
    assert found(RULE, told(tmp_path, "log(value.item())\n", of="penalty").tell("PenaltyInScaledUnits", 1)) == []


@pytest.mark.parametrize(("limit", "expected"), [(math.inf, [("warning", 9), ("note", 10)]), (1.0, [])])
def test_the_norm_of_a_clip_is_named_at_the_clip_unless_that_clips(limit, expected):
    telling = Telling().tell("Clipped", 9, limit=limit, carried=1024.0).tell("GradientRead", 10, of="clip", made=at(9))
    assert found(RULE, telling) == expected
