"""A clip out of place or undeclared, alone and after another mistake, is told by the norms of all attempts and by direction."""

from itertools import product

import pytest

from tests.profile import FULL
from tests.verification.cases.clips import Clipped
from truestep.engine.clip import ClipNorm, ClipValue
from truestep.verification.cut import Length, cut_of, is_round

SOME = [("sgd", 2, 2.0**10, True), ("adamw", 4, 2.0**16, False)]
EVERY = list(product(("sgd", "adamw"), (2, 4, 8), (2.0**10, 2.0**16), (True, False)))
LOOPS = pytest.mark.parametrize(("optimizer", "count", "scale", "equal"), EVERY if FULL else SOME)

DECLARED = pytest.mark.parametrize("declared", [False, True], ids=["undeclared", "declared"])


def verified(loop, fault, *, declared=False):
    optimizer, count, scale, equal = loop
    rule = ClipValue if fault.get("by_value") else ClipNorm
    clip = {"clip": rule(fault["limit"])} if declared else {}
    return Clipped(optimizer=optimizer, count=count, scale=scale, equal=equal, **fault).verified(**clip)


@LOOPS
@DECLARED
@pytest.mark.parametrize("limit", [0.5, 1.0])
def test_a_clip_while_scaled_is_named_whether_it_is_declared_or_not(optimizer, count, scale, equal, declared, limit):
    result = verified((optimizer, count, scale, equal), {"limit": limit, "while_scaled": True}, declared=declared)
    assert not result.passed
    assert result.reading.kind == "clip-before-unscale", result
    assert result.reading.factor < 1 / scale * limit * 100
    assert verified((optimizer, count, scale, equal), {"limit": limit}, declared=True).passed


@LOOPS
@DECLARED
def test_a_clip_by_value_while_scaled_is_named(optimizer, count, scale, equal, declared):
    fault = {"limit": 1.0, "by_value": True, "while_scaled": True}
    result = verified((optimizer, count, scale, equal), fault, declared=declared)
    assert result.reading.kind == "clip-before-unscale", result
    assert "by value, to 1.00" in result.reading.sentence
    result = verified((optimizer, count, scale, equal), {**fault, "weighed": "alike"}, declared=declared)
    assert "clip-before-unscale" in (result.reading.kind, *result.reading.also), result


@LOOPS
def test_a_clip_that_was_not_declared_is_named_and_passes_once_it_is(optimizer, count, scale, equal):
    loop = optimizer, count, scale, equal
    for fault, words in (
        ({"limit": 0.01}, "clip=ClipNorm(0.0100)"),
        ({"limit": 0.02, "by_value": True}, "clip=ClipValue(0.0200)"),
    ):
        result = verified(loop, fault)
        assert result.reading.kind == "clip-undeclared", result
        assert words in result.reading.fix
        assert verified(loop, fault, declared=True).passed


@LOOPS
def test_what_was_not_divided_before_an_undeclared_clip_is_named_where_it_shows(optimizer, count, scale, equal):
    result = verified((optimizer, count, scale, equal), {"limit": 0.01, "weighed": "not"})
    if equal:  # nothing of the length is left, and nothing is made up
        assert result.reading.kind == "clip-undeclared", result
        assert "so that the rest can be told" in result.reading.fix
    else:
        assert {result.reading.kind, *result.reading.also} == {"mean-of-means", "not-divided"}, result
        assert "by a clip that was not declared" in result.reading.sentence


@LOOPS
@DECLARED
def test_a_gradient_that_was_too_long_before_its_clip_is_told_by_an_attempt_that_the_clip_should_have_spared(
    optimizer, count, scale, equal, declared
):
    result = verified((optimizer, count, scale, equal), {"limit": 1.0, "unscaled": False}, declared=declared)
    assert result.reading.kind == "too-long-before-clip", result
    assert {"not-divided", "still-scaled"} <= set(result.reading.also)
    far = {"limit": 300.0, "unscaled": False}  # more times too long than a window has rows
    assert verified((optimizer, count, scale, equal), far, declared=declared).reading.kind == "still-scaled"


@LOOPS
@DECLARED
def test_a_mistake_of_direction_is_named_though_a_clip_follows(optimizer, count, scale, equal, declared):
    result = verified((optimizer, count, scale, equal), {"limit": 0.01, "weighed": "last"}, declared=declared)
    assert result.reading.kind == "last-only", result
    if not equal:
        for while_scaled in (False, True):
            fault = {"limit": 0.01, "weighed": "alike", "while_scaled": while_scaled}
            assert verified((optimizer, count, scale, equal), fault, declared=declared).reading.kind == "mean-of-means"


@LOOPS
def test_gradients_that_are_not_zeroed_are_named_also_where_the_loss_scale_hides_them(optimizer, count, scale, equal):
    loop = optimizer, count, scale, equal
    result = verified(loop, {"zeroed": False})
    assert result.reading.kind == "leftover", result
    for fault in ({"zeroed": False}, {"zeroed": False, "limit": 0.01}):
        (note,) = [note for note in verified(loop, fault, declared="limit" in fault).notes if "not zeroed" in note]
        assert "in attempt 1, .grad of 4 of 4 parameters was not empty" in note
    assert not [note for note in verified(loop, {}).notes if "not zeroed" in note]


def test_a_norm_that_stays_is_a_mark_only_where_the_gradients_do_not():
    assert cut_of([Length(0.123, 1.0, None), Length(0.123, 2.0, None)], Length(0.123, 1.0, None)).sure
    assert cut_of([Length(0.123, 1.0, None), Length(0.123, 1.0, None)], Length(0.123, 1.0, None)) is None
    assert not cut_of([], Length(0.25, 1.0, None)).sure


def test_a_loss_scale_that_moves_tells_on_which_side_of_unscaling_the_clip_stood():
    before = [Length(0.37 / scale, 1.0 + scale, scale) for scale in (512.0, 1024.0)]
    assert cut_of(before, before[1]).scaled
    after = [Length(0.37, 1.0 + scale, scale) for scale in (512.0, 1024.0)]
    assert not cut_of(after, after[0]).scaled


def test_an_attempt_below_the_limit_was_not_cut():
    lengths = [Length(0.5, 1.0, 8.0), Length(0.5, 2.0, 8.0), Length(0.4, 0.4, 8.0)]
    assert cut_of(lengths, lengths[0]).attempts == 2
    assert cut_of(lengths, lengths[2]) is None or not cut_of(lengths, lengths[2]).sure


@pytest.mark.parametrize("limit", [0.01, 0.25, 0.5, 1.0, 2.0, 5.0, 0.37])
def test_no_power_of_two_makes_a_limit_another_round_number(limit):
    assert is_round(limit)
    assert not is_round(limit / 2.0**10)
    assert not is_round(limit / 2.0**16)
