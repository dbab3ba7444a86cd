"""A fused SGD whose first attempt is skipped with no momentum yet is named where it is made."""

import pytest

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.fused_first_skip import RULE

MADE = {"fused": True, "momentum": 0.9}
SKIPPED = {"fused": True, "first": True, "unset": True, "completed": False}


def test_a_skipped_first_attempt_without_momentum_is_an_error():
    assert found(RULE, Telling().tell("OptimizerMade", 6, **MADE).backward().step(**SKIPPED)) == [("error", 6)]


@pytest.mark.parametrize(
    ("made", "stepped"),
    [
        ({"momentum": 0.0}, {}),
        ({"kind": "AdamW"}, {}),
        ({}, {"unset": False}),
        ({}, {"first": False}),
        ({}, {"completed": True}),
        ({"fused": False}, {"fused": False}),
    ],
)
def test_all_else_is_right(made, stepped):
    assert found(RULE, Telling().tell("OptimizerMade", 6, **{**MADE, **made}).backward().step(**{**SKIPPED, **stepped})) == []
