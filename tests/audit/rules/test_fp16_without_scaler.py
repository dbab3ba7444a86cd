"""Float16 gradients that never carried a scale are named at their backward, with the share that is zero."""

import pytest

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.fp16_without_scaler import RULE

BARE = {"scaler": None, "scale": 1.0, "carried": "none"}


def test_a_float16_backward_without_a_scale_is_a_warning_with_its_zeros():
    (finding,) = RULE(Telling().backward(12, zeros=0.25, **BARE).step(scaler=None).story())
    assert (finding.severity, finding.line) == ("warning", 12)
    assert "25.0%" in finding.evidence[0]


def test_a_scaler_that_was_switched_off_is_no_scale():
    telling = Telling().tell("ScalerMade", enabled=False, asked=False).backward(12, scale=1.0).step()
    assert found(RULE, telling) == [("warning", 12), ("note", 1)]


@pytest.mark.parametrize(
    "telling",
    [
        Telling().tell("ScalerMade").backward(12).step(),
        Telling().backward(12, **{**BARE, "low": "bfloat16"}).step(scaler=None),
        Telling().backward(12, **BARE),
        Telling().backward(12, **BARE).tell("Edited", 14, ratio=2.0**-14).step(scaler=None),
        Telling().tell("ScalerMade", enabled=False).backward(12, scale=1.0).step(),
        Telling().tell("Autocast", outer="bfloat16").backward(12, **BARE).step(scaler=None),
        Telling().backward(12, **BARE).step(scaler=None, finite=None),
    ],
    ids=["scaled", "bfloat16", "never stepped", "its own scale", "off by mistake", "nested", "not looked at"],
)
def test_what_carries_a_scale_or_needs_none_is_no_finding(telling):
    assert found(RULE, telling) == []


def test_gradients_that_were_divided_by_a_scale_they_do_not_carry_are_another_rules_matter():
    telling = Telling().backward(scale=1.0, carried="none", scaler=None).tell("Unscaled", 19).step()
    assert found(RULE, telling) == []
