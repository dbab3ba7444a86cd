"""A loss that is not finite again and again is named at its first such value; calibration and single accidents are not."""

import math

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.forward_overflow import RULE as FORWARD
from truestep.audit.rules.scale_collapse import RULE


def lost(telling, times, *, loss=math.inf, carried="all", **overflow):
    for _ in range(times):
        telling.tell("Overflowed", 5, **{"operation": "log", "module": None, "largest": None, "in_loss": True, **overflow})
        telling.backward(loss=loss, finite=False, carried=carried).step(completed=False, finite=False)
        telling.tell("Updated", 30, before=1024.0, after=512.0)
    return telling


def test_a_loss_that_is_lost_attempt_after_attempt_is_named_where_it_first_was_not_finite():
    assert found(RULE, lost(Telling().tell("ScalerMade"), 4)) == [("error", 5)]


def test_the_message_tells_how_far_the_scale_fell():
    (finding,) = RULE(lost(Telling().tell("ScalerMade"), 4).story())
    assert "4 attempts" in finding.message
    assert "fell from 1024 to 512" in finding.message


def test_one_lost_loss_among_good_ones_is_a_note():
    telling = lost(Telling().tell("ScalerMade"), 1)
    for _ in range(4):
        telling.backward().step()
    assert found(RULE, telling) == [("note", 5)]


def test_a_script_that_ends_on_its_first_lost_loss_is_an_error():
    telling = Telling().tell("ScalerMade").tell("Overflowed", 5, operation="log", module=None, largest=None, in_loss=True)
    assert found(RULE, telling.backward(loss=math.nan, finite=False).tell("Raised", 9)) == [("error", 5)]


def test_skips_with_finite_losses_are_calibration():
    assert found(RULE, lost(Telling().tell("ScalerMade"), 6, loss=2.0)) == []


def test_without_a_scaler_there_is_no_scale_to_collapse():
    assert found(RULE, lost(Telling(), 4, carried="none")) == []


def test_an_epsilon_that_vanished_before_is_the_cause():
    assert found(RULE, lost(Telling().tell("ScalerMade").tell("Vanished", 4), 4)) == []


def test_an_overflow_inside_a_module_is_the_forward_rules_own():
    telling = lost(Telling().tell("ScalerMade"), 4, in_loss=False, largest=1e6, module="Net", operation="pow")
    assert found(RULE, telling) == []
    assert found(FORWARD, telling) == [("error", 5)]


def test_an_exponential_outside_of_all_modules_is_the_losss_own():
    telling = lost(Telling().tell("ScalerMade"), 4, largest=1e6, operation="exp")
    assert found(RULE, telling) == [("error", 5)]
    assert found(FORWARD, telling) == []
