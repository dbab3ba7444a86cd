"""A float16 forward that overflows is named whatever the loss came to; masks, other causes and spoiled weights are not."""

import math

from tests.audit.rules.making import Telling, found
from truestep.audit.events import Judged
from truestep.audit.rules.forward_overflow import RULE


def test_attempts_lost_to_an_overflow_are_an_error_at_the_operation():
    telling = Telling()
    for _ in range(3):
        telling.tell("Overflowed", 7).backward(loss=math.nan, finite=False).step(completed=False)
    assert found(RULE, telling) == [("error", 7)]


def test_a_wrong_value_that_goes_on_silently_is_a_warning():
    telling = Telling()
    for _ in range(3):
        telling.tell("Overflowed", 7).backward().step()
    assert found(RULE, telling) == [("warning", 7)]


def test_once_in_a_run_is_a_note():
    telling = Telling().tell("Overflowed", 7).backward(loss=math.inf).step()
    assert found(RULE, telling.backward().step()) == [("note", 7)]


def test_a_masks_minus_infinity_is_no_overflow():
    telling = Telling()
    for _ in range(3):
        telling.tell("Overflowed", 7, negative=True, operation="mul").backward().step()
    assert found(RULE, telling) == []


def test_a_matrix_product_is_the_forwards_own_wherever_it_is_written():
    telling = Telling()
    for _ in range(3):
        telling.tell("Overflowed", 7, module=None, in_loss=True, operation="bmm").backward(loss=math.inf).step()
    assert found(RULE, telling) == [("error", 7)]


def test_what_float32_cannot_hold_either_is_no_overflow_of_float16():
    telling = Telling()
    for _ in range(3):
        telling.tell("Overflowed", 7, largest=None).backward(loss=math.inf).step()
    assert found(RULE, telling) == []


def test_a_float16_region_inside_of_a_bfloat16_one_is_the_cause():
    telling = Telling().tell("Autocast", 3, dtype="float16", outer="bfloat16")
    for _ in range(3):
        telling.tell("Overflowed", 7).backward(loss=math.nan, finite=False).step()
    assert found(RULE, telling) == []


def test_overflows_after_wrong_updates_are_their_damage():
    wrong = Judged(expected=1.0, observed=1024.0, cosine=1.0, clipped=1.0)
    telling = Telling().backward().step(judged=wrong)
    for _ in range(3):
        telling.tell("Overflowed", 7).backward(loss=math.nan, finite=False).step(completed=False)
    assert found(RULE, telling) == []
