"""An optimizer that no backward reaches is named where its graph was cut; cleared and hand-made gradients are not its case."""

import pytest

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.no_gradient_for_optimizer import RULE

REFUSAL = {"kind": "AssertionError", "text": "No inf checks were recorded for this optimizer."}


@pytest.mark.parametrize("how", ["detached", "no_grad", "frozen"])
def test_torchs_refusal_is_named_at_the_cut(how):
    telling = Telling().tell("OptimizerMade", 3).tell("Cut", 20, how=how).backward(touched=(1,)).tell("Raised", 30, **REFUSAL)
    assert found(RULE, telling) == [("error", 20)]


def test_a_leaf_made_of_a_number_is_the_cut_though_something_was_detached_before():
    telling = Telling().tell("OptimizerMade", 3).tell("Cut", 20).tell("Cut", 25, how="rebuilt", optimizers=())
    assert found(RULE, telling.backward(touched=()).tell("Raised", 30, **REFUSAL)) == [("error", 25)]


def test_without_a_cut_the_optimizer_was_built_on_other_parameters():
    telling = Telling().tell("OptimizerMade", 3).backward(touched=()).tell("Raised", 30, **REFUSAL)
    assert found(RULE, telling) == [("error", 3)]


def test_silent_steps_without_any_gradient_are_a_warning():
    telling = Telling().tell("OptimizerMade", 3)
    for _ in range(2):
        telling.backward(touched=()).step(backwards=(), bare=True)
    assert found(RULE, telling) == [("warning", 3)]


@pytest.mark.parametrize(
    "telling",
    [
        Telling().tell("OptimizerMade", 3).backward().tell("Zeroed", dropped=(1,)).tell("Raised", 30, **REFUSAL),
        Telling().tell("OptimizerMade", 3).backward(touched=()).step(backwards=()).backward(touched=()).step(backwards=()),
        Telling().tell("OptimizerMade", 3).backward(touched=()).step(backwards=(), bare=True),
        Telling().tell("OptimizerMade", 3).tell("Cut", 20).backward(touched=()),
    ],
    ids=["cleared", "gradients set by hand", "one step", "never stepped"],
)
def test_other_optimizers_are_no_finding(telling):
    assert found(RULE, telling) == []
