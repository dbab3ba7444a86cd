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
