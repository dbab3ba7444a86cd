"""A scaler around bfloat16 alone is named where it is made; one that is off, or scales float16 too, is not."""

import pytest

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.bf16_with_scaler import RULE


def test_bfloat16_weights_under_a_scaler_are_named():
    telling = Telling().tell("ScalerMade", 4).tell("LowParameters", dtype="bfloat16").backward(low=None).step()
    assert found(RULE, telling) == [("warning", 4)]


def test_bfloat16_regions_under_a_scaler_are_named():
    assert found(RULE, Telling().tell("ScalerMade", 4).backward(low="bfloat16").step()) == [("warning", 4)]


def test_cudas_refusal_makes_it_an_error():
    telling = Telling().tell("ScalerMade", 4).tell("LowParameters", dtype="bfloat16").backward(low=None)
    assert found(RULE, telling.tell("Raised", text="\"unscale\" not implemented for 'BFloat16'")) == [("error", 4)]


@pytest.mark.parametrize(
    "telling",
    [
        Telling().tell("ScalerMade", enabled=False).backward(low="bfloat16", scale=1.0).step(),
        Telling().tell("ScalerMade").backward(low="bfloat16").backward(low="float16").step(last=2),
        Telling().tell("ScalerMade").backward(low=None).step(),
        Telling().tell("ScalerMade").tell("Autocast").backward(low="bfloat16").step(),
        Telling().tell("ScalerMade").tell("StepCalled", closure=True).backward(low="bfloat16"),
    ],
    ids=["off", "float16 too", "no region", "a float16 region around it", "a closure is the fault"],
)
def test_other_scalers_are_no_finding(telling):
    assert found(RULE, telling) == []
