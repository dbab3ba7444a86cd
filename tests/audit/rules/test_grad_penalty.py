"""A penalty in scaled units is named at the line that made it."""

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.grad_penalty import RULE


def test_a_penalty_in_scaled_units_is_an_error():
    assert found(RULE, Telling().tell("PenaltyInScaledUnits", 26).backward().step()) == [("error", 26)]


def test_a_run_without_one_is_no_finding():
    assert found(RULE, Telling().backward().step()) == []
