"""Binary cross entropy of probabilities under autocast is named at its call."""

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.op_unsafe_in_autocast import RULE


def test_it_is_an_error_in_float16_and_a_warning_in_bfloat16():
    assert found(RULE, Telling().tell("Unsafe", 8)) == [("error", 8)]
    assert found(RULE, Telling().tell("Unsafe", 8, dtype="bfloat16")) == [("warning", 8)]


def test_torchs_refusal_is_told_once():
    text = "binary_cross_entropy and BCELoss are unsafe to autocast."
    assert found(RULE, Telling().tell("Raised", 8, text=text)) == [("error", 8)]
    assert found(RULE, Telling().tell("Unsafe", 8).tell("Raised", 8, text=text)) == [("error", 8)]


def test_other_exceptions_are_no_finding():
    assert found(RULE, Telling().tell("Raised", 8, text="out of memory")) == []


def test_a_write_into_a_tensor_of_another_format_is_named_where_autocast_is_on():
    text = "index_add_(): self (Float) and source (Half) must have the same dtype"
    assert found(RULE, Telling().tell("Autocast").tell("Raised", 14, text=text)) == [("error", 14)]
    assert found(RULE, Telling().tell("Raised", 14, text=text)) == []
