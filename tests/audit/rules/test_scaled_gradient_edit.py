"""Edits of scaled gradients in other units are named; those that the scale does not change are not."""

import pytest

from tests.audit.rules.making import Telling, at, found
from truestep.audit.rules.scaled_gradient_edit import RULE

ADDED = {"operation": "add", "carried": 1024.0, "ratio": 1.1, "cosine": 0.9, "commutes": False}


def test_something_in_other_units_is_an_error_at_its_line_once():
    telling = Telling()
    for _ in range(3):
        telling.backward().tell("Edited", 17, **ADDED).step()
    assert found(RULE, telling) == [("error", 17)]


@pytest.mark.parametrize(
    "fields",
    [{"carried": 1.0}, {"commutes": True}, {"commutes": None}, {"hid": True}, {"reduced": True}, {"operation": "clamp"}],
)
def test_other_edits_are_no_finding(fields):
    assert found(RULE, Telling().backward().tell("Edited", 17, **{**ADDED, **fields}).step()) == []


def test_what_was_multiplied_by_the_scale_is_right(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("p.grad.add_(p, alpha=0.1 * scaler.get_scale())\n")
    assert found(RULE, Telling().backward().tell("Edited", at(1, path=str(script)), **ADDED).step()) == []


def test_a_mask_that_left_all_of_them_is_a_warning_and_one_that_did_not_an_error():
    mask = {"operation": "mul", "carried": 1024.0, "commutes": False, "reshapes": True, "cosine": 1.0}
    assert found(RULE, Telling().backward().tell("Edited", 17, **mask, ratio=1.0).step()) == [("warning", 17)]
    assert found(RULE, Telling().backward().tell("Edited", 17, **mask, ratio=0.9).step()) == [("error", 17)]


def test_a_clip_by_hand_has_a_rule_of_its_own():
    clip = {"operation": "mul", "carried": 1024.0, "commutes": False, "ratio": 0.1, "cosine": 1.0}
    assert found(RULE, Telling().backward().tell("Edited", 17, **clip).step()) == []
