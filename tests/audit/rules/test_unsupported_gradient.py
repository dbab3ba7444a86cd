"""Complex and sparse float16 gradients under a scaler are named where their parameters are made."""

import pytest

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.unsupported_gradient import RULE

REFUSAL = {"text": "\"_amp_foreach_non_finite_check_and_unscale_cpu\" not implemented for 'ComplexFloat'"}


@pytest.mark.parametrize("what", ["complex", "sparse float16"])
def test_such_gradients_are_an_error_where_their_parameters_are_made(what):
    telling = Telling().tell("ScalerMade").tell("OptimizerMade", 3).tell("StepCalled", 9).tell("OddGradients", 2, what=what)
    assert found(RULE, telling.tell("Raised", 9, **REFUSAL)) == [("error", 2)]


def test_torchs_refusal_alone_is_named_where_it_was_raised():
    assert found(RULE, Telling().tell("Raised", 9, **REFUSAL)) == [("error", 9)]


def test_without_a_scaler_they_are_right():
    assert found(RULE, Telling().tell("OptimizerMade", 3).tell("OddGradients", 2).backward(carried="none")) == []
    assert found(RULE, Telling().tell("ScalerMade", enabled=False).tell("StepCalled").tell("OddGradients", 2)) == []
