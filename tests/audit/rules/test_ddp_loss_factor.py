"""All elements on all ranks together weigh 1 in a mean; as much as there are ranks, or the inverse, has a cause that is named."""

import math

import pytest

from tests.audit.rules.making import Telling, at, found
from truestep.audit.events import Divisor, Judged, Share
from truestep.audit.rules.ddp_loss_factor import RULE

ONE = Judged(expected=1.0, observed=1.0, cosine=1.0, clipped=1.0)


def share(total, *, elements=8.0, divisors=(), node="MseLossBackward0"):
    return Share(weight=total / elements, elements=elements, node=node, divisors=divisors)


def attempt(totals, divisors=(), *, synced=True, number=1, elements=8.0, between=(), judged=None):
    """One attempt of rank 0; `totals` is what the losses of each rank weigh, `divisors` pairs of number and line."""
    telling, given = Telling(), tuple(Divisor(number=value, site=at(line)) for value, line in divisors)
    own = share(totals[0] / number, elements=elements, divisors=tuple(value for value, _ in divisors))
    for _ in range(number):
        telling.backward(10, ranks=len(totals), synced=synced, share=own, divisors=given)
    for kind, line, fields in between:
        telling.tell(kind, line, **fields)
    telling.step(20, last=number, judged=judged)
    return telling.tell("Ranks", 20, what="weight", values=totals, backwards=tuple(range(1, number + 1)))


def by_hand(totals, divisors=(), *, averaged, operation="sum"):
    """Likewise, of gradients that were reduced by hand: the two ranks' are the same, 1 long."""
    reduced = "Reduced", 15, {"given": 1.0, "made": 1.0 if operation == "avg" else 2.0, "operation": operation}
    judged = Judged(expected=1.0, observed=1.0 if averaged else 2.0, cosine=1.0, clipped=1.0)
    return attempt(totals, divisors, synced=None, between=[reduced], judged=judged)


def test_a_loss_multiplied_by_the_ranks_under_their_average_is_named():
    assert found(RULE, attempt((2.0, 2.0), [(0.5, 7)])) == [("error", 7)]


def test_a_loss_divided_by_the_ranks_under_their_average_is_named():
    assert found(RULE, attempt((0.5, 0.5), [(2.0, 7)])) == [("error", 7)]


def test_of_several_factors_the_one_of_the_ranks_is_named():
    assert found(RULE, attempt((1 / 3, 1 / 3, 1 / 3), [(2.0, 9), (3.0, 7)], number=2)) == [("error", 7)]


@pytest.mark.parametrize("totals", [(0.5, 0.5), (0.25, 0.75)])
def test_a_sum_divided_by_the_elements_of_all_ranks_under_their_average_is_named(totals):
    telling = attempt(totals, [(16.0, 7)], elements=16.0 * totals[0])
    assert found(RULE, telling) == [("error", 7)]


@pytest.mark.parametrize("number", [1, 3])
def test_elements_are_counted_over_the_whole_window(number):
    telling = attempt((0.25, 0.75), [(12.0, 7)], elements=3.0 / number, number=number)
    assert found(RULE, telling) == [("error", 7)]


@pytest.mark.parametrize(
    "telling",
    [
        attempt((1.0, 1.0)),
        attempt((0.5, 1.5), [(0.5, 7), (16.0, 7)], elements=4.0),
        attempt((1.0, 1.0), [(2.0, 7)], number=2),
        attempt((2.0, 2.0), number=2),
        attempt((0.5, 0.5), [(2.0, 7), (2.0, 9)], number=2),
        attempt((8.0, 8.0)),
        by_hand((1.0, 1.0), averaged=True),
        by_hand((0.5, 0.5), [(2.0, 7)], averaged=False),
        by_hand((1.0, 1.0), averaged=True, operation="avg"),
        attempt((0.5, 0.5), [(2.0, 7)], synced=False),
    ],
    ids=[
        "means that are averaged",
        "sums over all elements, times the ranks",
        "as many microbatches as ranks",
        "a window that was never divided",
        "a window that was divided twice",
        "a sum",
        "averaged by hand",
        "divided by the ranks, then added up",
        "the average of the reduction itself",
        "not averaged at all",
    ],
)
def test_what_weighs_one_or_has_another_reason_is_silent(telling):
    assert found(RULE, telling) == []


def test_an_average_by_hand_divides_as_ddp_does():
    assert found(RULE, by_hand((0.5, 0.5), [(2.0, 7)], averaged=True)) == [("error", 7)]


def test_gradients_that_are_added_up_and_never_divided_are_a_warning_at_their_reduction():
    assert found(RULE, by_hand((1.0, 1.0), averaged=False)) == [("warning", 15)]


def test_a_clip_after_the_reduction_is_reckoned_with():
    reduced = "Reduced", 15, {"given": 1.0, "made": 2.0}
    clipped = "Clipped", 17, {"factor": 0.5}
    judged = Judged(expected=1.0, observed=0.5, cosine=1.0, clipped=1.0)  # 1, added up over two ranks, averaged, clipped
    telling = attempt((0.5, 0.5), [(2.0, 7)], synced=None, between=[reduced, clipped], judged=judged)
    assert found(RULE, telling) == [("error", 7)]


@pytest.mark.parametrize("made", [None, 0.0, math.nan])
def test_a_reduction_whose_numbers_are_not_known_is_not_judged(made):
    reduced = "Reduced", 15, {"made": made}
    assert found(RULE, attempt((0.5, 0.5), [(2.0, 7)], synced=None, between=[reduced], judged=ONE)) == []


def test_ranks_that_were_not_all_seen_are_not_added_up():
    telling = Telling().backward(10, ranks=4, synced=True, share=share(0.5, divisors=(2.0,))).step()
    assert found(RULE, telling.tell("Ranks", 20, what="weight", values=(0.5, 0.5), backwards=(1,))) == []


def reduced_loss(factor, *, synced=True, operation="sum"):
    telling = Telling().tell("Reduced", 5, what="loss", given=factor, made=None, optimizers=(), operation=operation)
    return telling.backward(10, ranks=2, synced=synced, unread="_AllReduceBackward").step()


def test_a_loss_that_autograd_sees_added_up_over_the_ranks_is_named():
    assert found(RULE, reduced_loss(1.0)) == [("error", 5)]


@pytest.mark.parametrize("telling", [reduced_loss(0.5), reduced_loss(1.0, synced=None), reduced_loss(1.0, operation="avg")])
def test_a_loss_that_is_averaged_so_or_whose_gradients_are_not_is_right(telling):
    assert found(RULE, telling) == []
