"""Microbatches that leak into the next window, are dropped, or count too little are named; windows of their own size are not."""

import textwrap

from tests.audit.rules.making import Telling, at, found
from truestep.audit.events import Share
from truestep.audit.rules.partial_window import RULE

SCRIPT = """
for i, x in enumerate(loader):
    loss = f(x) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def window(telling, number, divisor, **fields):
    share = Share(weight=1 / 8 / divisor, elements=8.0, node="MseLossBackward0", divisors=(divisor,) if divisor != 1 else ())
    for _ in range(number):
        telling.backward(4, share=share, divided=at(3), **fields)
    return telling


def run(*sizes, divisor=4, telling=None):
    telling = telling or Telling()
    telling.tell("OptimizerMade")
    for size in sizes:
        window(telling, size, divisor or size).step(6, last=size)
    return telling


def test_a_window_that_holds_what_was_left_over_is_named_at_the_test_that_closes_it(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    assert found(RULE, run(4, 7, 7, telling=Telling(path))) == [("error", 5)] * 2


def test_a_short_window_that_was_divided_as_a_full_one_is_named_where_it_was_divided():
    assert found(RULE, run(4, 4, 1)) == [("warning", 3)]


def test_the_rest_of_a_window_that_was_resumed_inside_is_the_checkpoints_fault():
    telling = Telling().tell("Restored", 2)
    assert found(RULE, run(2, 4, 4, telling=telling)) == []


def test_windows_that_are_divided_by_their_own_number_are_right():
    assert found(RULE, run(4, 4, 1, 7, divisor=None)) == []


def test_a_divisor_that_no_window_has_is_another_rules_matter():
    assert found(RULE, run(2, 2, 2, divisor=12)) == []


def dropped(number, telling=None, **fields):
    telling = run(3, divisor=3, telling=telling)
    window(telling, number, 3, **fields)
    telling.tell("Zeroed", 2, dropped=tuple(range(telling.backwards - number + 1, telling.backwards + 1)))
    return window(telling, 3, 3).step(6, last=3)


def test_microbatches_that_are_cleared_before_their_step_are_named_where_their_window_closes_and_where_they_were_cleared():
    assert found(RULE, dropped(2)) == [("warning", 6), ("note", 2)]


def test_an_overflow_may_be_dropped():
    assert found(RULE, dropped(1, finite=False)) == []


def test_gradients_of_another_loss_may_be_cleared():
    assert found(RULE, dropped(2, reached=5)) == []


def test_a_whole_window_that_is_cleared_is_no_leftover():
    assert found(RULE, dropped(3)) == []


def test_a_window_in_which_microbatches_were_cleared_is_not_called_short():
    telling = run(4)
    window(telling, 3, 4).step(6, last=1, dropped=(5, 6))
    assert found(RULE, telling) == []
