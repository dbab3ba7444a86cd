"""Ranks are compared attempt by attempt, where they are to be alike."""

import pytest

from truestep.audit.events import Backward, Edited, Judged, OptimizerMade, Stepped, Updated
from truestep.audit.process.ranks import compared, differences
from truestep.audit.site import Place, Site
from truestep.audit.story import Story

SITE = Site(Place("train.py", 9))


def made(parameters=2, kind="SGD"):
    return OptimizerMade(
        order=1, site=None, optimizer=0, kind=kind, fused=False, parameters=parameters, lr=0.1, eps=None, momentum=None
    )


def backward(number, synced=True):
    return Backward(
        order=10 * number,
        site=None,
        number=number,
        scaler=0,
        scale=4.0,
        carried="all",
        touched=(0,),
        kept=(),
        loss=1.0,
        finite=True,
        norm=1.0,
        share=None,
        unread=None,
        divided=None,
        forward=None,
        forwards=1,
        low=None,
        inside_autocast=False,
        synced=synced,
        examples=4,
        tokens=None,
    )


def stepped(number, gradient=1.0, completed=True, site=SITE):
    return Stepped(
        order=10 * number + 5,
        site=site,
        optimizer=0,
        scaler=0,
        completed=completed,
        closure=False,
        fused=False,
        lr=0.1,
        backwards=(number,),
        dropped=(),
        carried=1.0,
        finite=completed,
        judged=None if gradient is None else Judged(expected=1.0, observed=gradient, cosine=1.0, clipped=1.0),
        damage=None,
        moved=None,
        first=number == 1,
    )


def updated(number, after):
    return Updated(order=10 * number + 6, site=None, scaler=0, before=4.0, after=after, by_hand=False)


def reduced(number):
    return Edited(
        order=10 * number + 1,
        site=None,
        operation="all_reduce",
        optimizers=(0,),
        carried=1.0,
        ratio=None,
        cosine=None,
        hid=False,
        reduced=True,
    )


def story(rank, *events):
    return Story(events=events, rank=rank)


def told(*ranks):
    return [(each.what, each.optimizer, each.values) for each in differences([story(n, *ranks[n]) for n in range(len(ranks))])]


def test_a_gradient_that_was_to_be_one_but_is_not_is_told_with_each_ranks_norm_and_the_first_ones_line():
    first = story(0, made(), backward(1), stepped(1), backward(2), stepped(2, 2.0))
    second = story(1, made(), backward(1), stepped(1), backward(2), stepped(2, 2.1, site=None))
    (found,) = differences([first, second])
    assert (found.what, found.optimizer, found.values, found.site) == ("gradient", 0, (2.0, 2.1), SITE)
    assert found.order == 26


def test_rounding_is_no_difference():
    assert told([backward(1), stepped(1, 1.0)], [backward(1), stepped(1, 1.0009)]) == []


def test_without_a_reduction_ranks_have_gradients_of_their_own():
    assert told([backward(1, None), stepped(1, 1.0)], [backward(1, None), stepped(1, 2.0)]) == []


def test_no_sync_in_all_of_a_window_is_still_told():
    assert told([backward(1, False), stepped(1, 1.0)], [backward(1, False), stepped(1, 2.0)]) == [("gradient", 0, (1.0, 2.0))]


def test_a_reduction_by_hand_counts():
    ranks = [[backward(1, None), reduced(1), stepped(1, size)] for size in (1.0, 2.0)]
    assert told(*ranks) == [("gradient", 0, (1.0, 2.0))]


@pytest.mark.parametrize("gradient", [None, float("inf"), float("nan")])
def test_what_was_not_measured_on_every_rank_is_not_compared(gradient):
    assert told([backward(1), stepped(1, 1.0)], [backward(1), stepped(1, gradient)]) == []


@pytest.mark.parametrize("kinds", [({"parameters": 3}, {}), ({"kind": "ZeroRedundancyOptimizer"},) * 2])
def test_optimizers_of_different_parameters_have_different_gradients(kinds):
    assert told(*([made(**kind), backward(1), stepped(1, n + 1.0)] for n, kind in enumerate(kinds))) == []


def test_an_attempt_that_only_some_ranks_completed_is_told():
    ranks = [[backward(1, None), stepped(1, None, completed)] for completed in (True, False, True)]
    assert told(*ranks) == [("completed", 0, (1.0, 0.0, 1.0))]


def test_a_loss_scale_that_moved_on_some_ranks_alone_is_told_at_the_attempt_before_it():
    rest = [backward(2, None), stepped(2), updated(2, 4.0)]
    ranks = [[backward(1, None), stepped(1), updated(1, scale), *rest] for scale in (4.0, 2.0)]
    assert told(*ranks) == [("scale", 0, (4.0, 2.0))]


def test_attempts_are_paired_by_their_backwards_and_those_of_some_ranks_alone_left_out():
    first = [backward(1), stepped(1, 1.0), backward(3), stepped(3, 3.0)]
    second = [backward(2), stepped(2, 2.0), backward(3), stepped(3, 3.0)]
    assert told(first, second) == []


def test_differences_stand_at_the_end_of_the_first_ranks_story():
    alone = story(None, backward(1), stepped(1))
    second, first = (story(rank, made(), backward(1), stepped(1, 1.0 + rank)) for rank in (1, 0))
    assert [(each.rank, each.events[-1].__class__.__name__) for each in compared([second, alone, first])] == [
        (None, "Stepped"),
        (0, "Ranks"),
        (1, "Stepped"),
    ]


def test_each_process_of_a_rank_is_compared_with_its_own_generation():
    runs = [story(rank, backward(1), stepped(1, size)) for size in (1.0, 2.0) for rank in (0, 1)]
    assert [each.rank for each in compared(runs)] == [0, 1, 0, 1]
    assert compared(runs) == tuple(runs)


def test_one_rank_and_no_story_have_nothing_to_compare():
    assert compared([]) == ()
    alone = (story(0, made(), backward(1), stepped(1)),)
    assert compared(alone) == alone
