"""An average that moves without an update is named at the line of the loop; one that moves with updates or epochs is not."""

from tests.audit.rules.making import Telling, at, found
from truestep.audit.rules.ema_clock import RULE


def test_a_move_after_a_skipped_attempt_is_named_beside_the_step_and_noted_where_it_is_made():
    helper = at(5, (30, "<module>"), function="update")
    telling = Telling().backward().step(completed=False).tell("Averaged", helper, completed=0)
    telling.backward().step().tell("Averaged", helper, number=2)
    assert found(RULE, telling) == [("warning", 30), ("note", 5)]


def test_moves_on_every_microbatch_are_named():
    telling = Telling()
    for number in range(1, 9):
        telling.backward()
        stepped = int(number % 4 == 0)
        if stepped:
            telling.step(last=4)
        telling.tell("Averaged", 31, number=number, attempts=stepped, completed=stepped)
    assert found(RULE, telling) == [("warning", 31)]


def test_one_move_for_each_update_is_right():
    telling = Telling().backward().step(completed=False).backward().step()
    telling.tell("Averaged", 30, attempts=2, completed=1).backward().step().tell("Averaged", 30, number=2)
    assert found(RULE, telling) == []


def test_an_average_over_epochs_may_meet_a_skipped_one():
    telling = Telling()
    for number, completed in enumerate((3, 0, 3), 1):
        telling.tell("Averaged", 30, number=number, attempts=3, completed=completed)
    assert found(RULE, telling) == []


def test_two_averages_that_move_together_are_no_extra_moves():
    telling = Telling().backward().step().tell("Averaged", 30)
    for number in (2, 3):
        telling.tell("Averaged", 30, number=number, attempts=0, completed=0, backwards=0)
    assert found(RULE, telling) == []
