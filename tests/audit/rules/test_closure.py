"""A closure under a scaler that is on is named at the step; one under a scaler that is off is right."""

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.closure import RULE


def test_a_closure_given_to_a_scaler_is_an_error():
    assert found(RULE, Telling().tell("ScalerMade").tell("StepCalled", 9, closure=True)) == [("error", 9)]


def test_lbfgs_without_its_closure_is_one_too():
    assert found(RULE, Telling().tell("ScalerMade").tell("OptimizerMade", kind="LBFGS").tell("StepCalled", 9)) == [("error", 9)]


def test_other_steps_and_scalers_that_are_off_are_right():
    assert found(RULE, Telling().tell("ScalerMade").tell("OptimizerMade").tell("StepCalled", 9)) == []
    assert found(RULE, Telling().tell("ScalerMade", enabled=False).tell("StepCalled", 9, closure=True)) == []
