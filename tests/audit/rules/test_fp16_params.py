"""Float16 weights under a scaler are named where they were made so, and only there."""

import pytest

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.fp16_params import RULE

REFUSAL = {"kind": "ValueError", "text": "Attempting to unscale FP16 gradients."}


def test_float16_weights_that_a_scaler_steps_are_named_at_their_cast():
    telling = Telling().tell("ScalerMade").tell("OptimizerMade", 3).backward().tell("StepCalled", 9).tell("LowParameters", 2)
    assert found(RULE, telling.tell("Raised", 9, **REFUSAL)) == [("error", 2)]


def test_without_a_known_cast_the_optimizer_is_named():
    telling = Telling().tell("ScalerMade").tell("OptimizerMade", 3).tell("StepCalled", 9).tell("LowParameters", None)
    assert found(RULE, telling) == [("error", 3)]


def test_torchs_refusal_alone_is_named_where_it_was_raised():
    assert found(RULE, Telling().tell("ScalerMade").tell("Raised", 9, **REFUSAL)) == [("error", 9)]


def test_a_fused_optimizer_unscales_by_itself():
    telling = Telling().tell("ScalerMade").tell("OptimizerMade", 3, fused=True).tell("StepCalled", 9).tell("LowParameters", 2)
    assert found(RULE, telling) == [("warning", 2)]


@pytest.mark.parametrize(
    "telling",
    [
        Telling().tell("ScalerMade", enabled=False).tell("StepCalled").tell("LowParameters"),
        Telling().tell("ScalerMade").tell("StepCalled", optimizer=1).tell("LowParameters"),
        Telling().tell("ScalerMade").tell("StepCalled").tell("LowParameters", dtype="bfloat16"),
        Telling().tell("ScalerMade").tell("StepCalled").tell("LowParameters").tell("OddGradients", what="sparse float16"),
        Telling().tell("LowParameters").backward(carried="none", scale=1.0).step(scaler=None),
    ],
    ids=["scaler off", "another optimizer", "bfloat16", "sparse", "no scaler"],
)
def test_what_no_scaler_unscales_is_no_finding(telling):
    assert found(RULE, telling) == []
