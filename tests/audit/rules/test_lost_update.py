"""Weights, averages and sums that do not move are named where they were made so; warm-ups and healthy ones are not."""

from tests.audit.rules.making import Telling, at, found
from truestep.audit.events import Moved
from truestep.audit.rules.lost_update import RULE


def steps(telling, moved, lrs=(0.1, 0.1, 0.1)):
    for lr in lrs:
        telling.backward().step(lr=lr, moved=Moved(dtype="bfloat16", moved=moved, asked=100))
    return telling


def weights():
    return Telling().tell("OptimizerMade", 3).tell("LowParameters", 2, dtype="bfloat16")


def test_weights_that_nearly_none_of_move_are_an_error_at_their_cast():
    assert found(RULE, steps(weights(), 2)) == [("error", 2)]


def test_weights_of_which_a_third_moves_are_a_note():
    assert found(RULE, steps(weights(), 33)) == [("note", 2)]


def test_weights_that_move_are_no_finding():
    assert found(RULE, steps(weights(), 80)) == []


def test_a_warm_up_is_no_finding():
    assert found(RULE, steps(steps(weights(), 0, lrs=(0.0, 0.001, 0.01)), 90)) == []


def test_an_average_that_does_not_move_is_named_where_it_was_made():
    telling = Telling()
    for _ in range(3):
        telling.tell("Averaged", 25, dtype="bfloat16", asked=50, moved=1, made=at(15))
    assert found(RULE, telling) == [("error", 15)]


def test_a_sum_is_lost_once_it_has_grown():
    telling = Telling()
    for moved in (8, 8, 8, 8, 0, 0, 0):
        telling.tell("Lost", 13, moved=moved, made=at(8))
    assert found(RULE, telling) == [("error", 8)]


def test_a_sum_that_moves_is_no_finding():
    telling = Telling()
    for moved in (8, 0, 8, 7, 0, 8):
        telling.tell("Lost", 13, moved=moved)
    assert found(RULE, telling) == []
