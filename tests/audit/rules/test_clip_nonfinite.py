"""Clips and scripts that raise on, hide or spread gradients that are not finite are named; those that guard are not."""

import math

import pytest

from tests.audit.rules.making import Telling, at, found
from truestep.audit.rules.clip_nonfinite import RULE

REFUSAL = {"text": "The total norm of order 2.0 for gradients is non-finite, so it cannot be clipped."}
UNFIT = {"finite": False, "factor": None}


def test_a_clip_that_raises_under_a_scaler_is_an_error():
    telling = Telling().tell("ScalerMade").backward(finite=False).tell("Clipped", 25, strict=True, **UNFIT)
    assert found(RULE, telling.tell("Raised", 25, **REFUSAL)) == [("error", 25)]


def test_a_norm_that_raises_alone_is_one_too():
    assert found(RULE, Telling().tell("ScalerMade").backward(finite=False).tell("Raised", 25, **REFUSAL)) == [("error", 25)]


def test_a_lost_loss_is_rightly_refused():
    telling = Telling().tell("ScalerMade").backward(finite=False, loss=math.nan).tell("Clipped", 25, strict=True, **UNFIT)
    assert found(RULE, telling) == []


def test_without_a_scaler_raising_is_a_guard():
    telling = Telling().backward(finite=False, carried="none", scaler=None).tell("Clipped", 25, strict=True, **UNFIT)
    assert found(RULE, telling.tell("Raised", 25, **REFUSAL)) == []


@pytest.mark.parametrize(("text", "expected"), [("raise ValueError(norm)", [("error", 7)]), ("norm.backward()", [])])
def test_the_scripts_own_raise_is_named_beside_its_clip(tmp_path, text, expected):
    script = tmp_path / "train.py"
    script.write_text(f"def check(norm):\n    {text}\n")
    telling = Telling(script).tell("ScalerMade").backward(finite=False).tell("Clipped", 6, **UNFIT)
    raised = at(2, (7, "<module>"), path=str(script), function="check")
    assert found(RULE, telling.tell("Raised", raised, kind="ValueError", text="inf")) == expected


def test_a_step_on_clipped_nans_without_a_scaler_is_an_error():
    telling = Telling().backward(finite=False, carried="none", scaler=None).tell("Clipped", 25, **UNFIT)
    assert found(RULE, telling.step(scaler=None, finite=False)) == [("error", 25)]


def test_a_clip_by_value_that_hides_an_overflow_is_an_error():
    telling = Telling().tell("ScalerMade").backward(finite=False).tell("Clipped", 18, how="value", carried=1024.0, **UNFIT)
    assert found(RULE, telling.step()) == [("error", 18)]


def test_a_clip_whose_attempt_was_skipped_is_right():
    telling = Telling().tell("ScalerMade").backward(finite=False).tell("Clipped", 18, **UNFIT).step(completed=False)
    assert found(RULE, telling) == []
