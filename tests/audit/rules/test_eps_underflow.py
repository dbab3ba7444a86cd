"""An epsilon that is zero in its format is named, worse where values are lost to it."""

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.eps_underflow import RULE


def test_an_epsilon_after_which_values_are_not_finite_is_an_error():
    assert found(RULE, Telling().tell("Vanished", 6).tell("Overflowed", 6, largest=None)) == [("error", 6)]


def test_gradients_lost_again_and_again_are_an_error_too():
    telling = Telling().tell("Vanished", 6)
    for _ in range(3):
        telling.backward(finite=False).step(completed=False, finite=False)
    assert found(RULE, telling) == [("error", 6)]


def test_without_harm_it_is_a_warning():
    assert found(RULE, Telling().tell("Vanished", 6).backward().step()) == [("warning", 6)]


def test_adams_eps_of_float16_weights_is_named_where_adam_is_made():
    telling = Telling().tell("OptimizerMade", 3, kind="Adam", eps=1e-8).tell("LowParameters", 2).backward().step()
    assert found(RULE, telling) == [("warning", 3)]


def test_an_eps_that_the_format_holds_is_right():
    for dtype, eps in (("float16", 1e-4), ("bfloat16", 1e-8)):
        telling = Telling().tell("OptimizerMade", 3, eps=eps).tell("LowParameters", 2, dtype=dtype).backward().step()
        assert found(RULE, telling) == []
