"""Gradients that were hidden and stepped on are named; those that the scaler or the script still skipped are not."""

import pytest

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.skip_not_atomic import RULE

HIDES = [("Edited", {"hid": True, "ratio": None, "cosine": None}), ("Clipped", {"how": "value", "norm": None, "finite": False})]


@pytest.mark.parametrize(("kind", "how"), HIDES)
def test_a_step_on_hidden_gradients_is_named_at_what_hid_them(kind, how):
    assert found(RULE, Telling().backward().tell(kind, 15, **how).step()) == [("error", 15)]


@pytest.mark.parametrize(("kind", "how"), HIDES)
def test_a_step_that_was_skipped_all_the_same_is_right(kind, how):
    assert found(RULE, Telling().backward().tell(kind, 15, **how).step(completed=False)) == []


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("Edited", {"hid": False}),
        ("Clipped", {"how": "value", "finite": True}),
        ("Clipped", {"how": "norm", "finite": False}),
        ("Edited", {"hid": True, "optimizers": (1,)}),
    ],
)
def test_what_hid_nothing_of_this_optimizer_is_right(kind, how):
    assert found(RULE, Telling().backward().tell(kind, 15, **how).step()) == []


@pytest.mark.parametrize(("kind", "how"), HIDES)
def test_what_was_hidden_and_then_cleared_was_stepped_on_by_nobody(kind, how):
    telling = Telling().backward().tell(kind, 15, **how).tell("Zeroed", dropped=(1,)).backward()
    assert found(RULE, telling.step()) == []


def decayed(*completed):
    telling = Telling()
    for each in completed:
        telling.backward().step(completed=each).tell("Rewritten", 25, completed=int(each))
    return telling


def test_weights_that_are_decayed_after_skipped_attempts_are_named_there():
    assert found(RULE, decayed(True, False, False)) == [("warning", 25)]


def test_one_skip_is_calibrations_and_a_decay_after_updates_is_right():
    assert found(RULE, decayed(False, True)) == [("note", 25)]
    assert found(RULE, decayed(True, True)) == []
