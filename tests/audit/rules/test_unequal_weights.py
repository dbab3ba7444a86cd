"""Means over different numbers of elements that enter a window alike are named; elements of one weight are not."""

from tests.audit.rules.making import Telling, at, found
from truestep.audit.events import Share
from truestep.audit.rules.unequal_weights import RULE


def run(*windows, weight=None, node="NllLossBackward0"):
    """Windows of microbatches of so many elements; each a mean, or of one weight for each element."""
    telling = Telling().tell("OptimizerMade")
    for sizes in windows:
        for size in sizes:
            own = weight or 1 / size / len(sizes)
            telling.backward(share=Share(weight=own, elements=float(size), node=node), divided=at(9))
        telling.step(last=len(sizes))
    return telling


def test_means_over_unequal_numbers_are_named_where_they_are_divided():
    telling = run((3, 27))
    assert found(RULE, telling) == [("warning", 9), ("note", 10)]
    assert "counts 9 times" in next(iter(RULE(telling.story()))).message


def test_one_weight_for_every_element_is_right():
    assert found(RULE, run((3, 27), weight=1 / 30)) == []


def test_equal_microbatches_are_right():
    assert found(RULE, run((8, 8), (8, 8))) == []


def test_microbatches_of_nearly_one_size_are_right():
    assert found(RULE, run((100, 104))) == []


def test_the_short_end_of_an_epoch_is_a_note():
    assert found(RULE, run((8, 8), (8, 8), (8, 2))) == [("note", 9), ("note", 10)]


def test_a_short_end_in_every_window_is_none():
    assert found(RULE, run((8, 8, 2), (8, 8, 2))) == [("warning", 9), ("note", 10)] * 2


def test_weights_of_the_microbatches_themselves_are_the_authors():
    telling = Telling().tell("OptimizerMade")
    for weight in (0.1, 0.9):
        telling.backward(share=Share(weight=weight / 8, elements=8.0, node="NllLossBackward0"))
    assert found(RULE, telling.step(last=2)) == []


def test_losses_of_different_kinds_are_no_microbatches():
    telling = Telling().tell("OptimizerMade")
    for size, node in ((8.0, "NllLossBackward0"), (64.0, "MseLossBackward0")):
        telling.backward(share=Share(weight=0.5 / size, elements=size, node=node))
    assert found(RULE, telling.step(last=2)) == []
