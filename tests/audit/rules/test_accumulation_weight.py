"""Microbatches that do not add up to their mean are named; those that do, or were meant to be a sum, are not errors."""

from dataclasses import replace

import pytest

from tests.audit.rules.making import Telling, at, found
from truestep.audit.events import Judged, Share
from truestep.audit.rules.accumulation_weight import RULE


def share(*divisors, elements=8.0, node="MseLossBackward0"):
    weight = 1.0 / elements
    for divisor in divisors:
        weight /= divisor
    return Share(weight=weight, elements=elements, node=node, divisors=divisors)


def run(*shares, telling=None, windows=2, parts=(), edits=(), judged=None, divided=9, **fields):
    """Windows whose microbatches have these shares."""
    telling = telling or Telling().tell("OptimizerMade", 3)
    for _ in range(windows):
        for each in shares:
            terms = (each, *parts)
            telling.backward(share=each, parts=terms, divided=at(divided) if divided else None, **fields)
        for line, ratio in edits:
            telling.tell("Edited", line, ratio=ratio)
        telling.step(last=len(shares), judged=judged)
    return telling


def test_a_mean_over_the_window_is_right():
    assert found(RULE, run(*[share(4)] * 4)) == []


def test_microbatches_that_nothing_divides_are_named_at_the_backward():
    telling = run(*[share()] * 4)
    assert found(RULE, telling) == [("warning", 10)] * 2
    assert "4 together" in next(iter(RULE(telling.story()))).message


def test_one_microbatch_is_no_sum():
    assert found(RULE, run(share())) == []


def test_a_division_of_the_gradients_after_the_window_is_right():
    assert found(RULE, run(*[share()] * 4, edits=[(18, 0.25), (18, 0.25)])) == []


def test_such_a_division_is_seen_by_its_effect_too():
    judged = Judged(expected=4.0, observed=1.0, cosine=1.0, clipped=1.0)
    assert found(RULE, run(*[share()] * 4, judged=judged)) == []


def test_a_sum_whose_learning_rate_was_divided_is_a_note(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("K = 4\nRATE = 0.1 / K\nopt = SGD(model.parameters(), lr=RATE)\n")
    telling = run(*[share()] * 4, telling=Telling(path).tell("OptimizerMade", 3))
    assert found(RULE, telling) == [("note", 10)] * 2


def test_a_clip_by_hand_makes_no_mean_of_a_sum():
    assert found(RULE, run(*[share()] * 4, edits=[(18, 0.37)])) == [("warning", 10)] * 2


def test_ranks_may_have_a_part_in_the_divisor():
    assert found(RULE, run(*[share(8)] * 4, ranks=2)) == []


def test_a_second_division_is_named_where_it_is_made():
    assert found(RULE, run(*[share(4, 4)] * 4)) == [("error", 9)] * 2


def test_of_two_microbatches_it_may_be_a_coefficient():
    assert found(RULE, run(*[share(2, 2)] * 2)) == [("note", 9)] * 2


def test_tokens_of_the_window_divided_once_more_are_named():
    shares = [Share(weight=1 / 60 / 3, elements=n, node="NllLossBackward0", divisors=(60.0, 3.0)) for n in (10.0, 20.0, 30.0)]
    assert found(RULE, run(*shares)) == [("error", 9)] * 2


def test_a_mean_whose_gradient_was_divided_again_is_named_there():
    assert found(RULE, run(*[share(5)] * 5, edits=[(18, 0.2), (18, 0.2)])) == [("error", 18), ("note", 9)] * 2


@pytest.mark.parametrize(
    ("divisors", "edits", "expected"),
    [
        ((4, 4, 4), [], [("error", 9)]),
        ((4, 4), [(18, 0.25)], [("error", 18), ("note", 9)]),
        ((4,), [(17, 0.25), (18, 0.25)], [("error", 18), ("note", 9)]),
        ((), [(17, 0.25), (18, 0.25)], [("error", 18), ("note", 17)]),
        ((), [(18, 0.25)], []),
        ((4, 4), [(18, 0.37)], [("error", 9)]),
    ],
    ids=["in the loss", "and after it", "twice after it", "only after it", "once after it", "and a clip by hand"],
)
def test_a_division_too_many_is_named_wherever_they_are(divisors, edits, expected):
    assert found(RULE, run(*[share(*divisors)] * 4, edits=edits)) == expected * 2


def test_a_third_division_by_two_is_no_coefficient():
    assert found(RULE, run(*[share(2, 2)] * 2, edits=[(18, 0.5)])) == [("error", 18), ("note", 9)] * 2


def test_a_sum_over_the_examples_of_a_microbatch_is_their_mean():
    for divisors, expected in (((8.0,), [("warning", 10)]), ((8.0, 4.0), []), ((8.0, 4.0, 4.0), [("error", 9)])):
        weight = 1.0
        for divisor in divisors:
            weight /= divisor
        shares = [Share(weight=weight, elements=40.0, node="SumBackward0", divisors=divisors, summed=True)] * 4
        assert found(RULE, run(*shares, examples=8)) == expected * 2


def test_a_scale_of_the_scripts_own_that_was_undone_is_no_weight():
    for divisors, expected in (((), [("warning", 10)]), ((4.0,), []), ((4.0, 4.0), [("error", 9)])):
        scaled = replace(share(*divisors, 1 / 1024), multiplied=(1 / 1024,))
        assert found(RULE, run(*[scaled] * 4, edits=[(18, 1 / 1024)])) == expected * 2


def test_a_backward_that_was_to_look_around_is_no_microbatch():
    telling = Telling().tell("OptimizerMade").backward(share=share()).backward(share=share(), kept=(0,), elsewhere=(0,))
    assert found(RULE, telling.step(last=2)) == []


def test_sums_over_the_positives_of_each_microbatch_are_means():
    for divisors, expected in (((), [("warning", 10)]), ((4.0,), []), ((4.0, 4.0), [("error", 9)])):
        shares = []
        for positives in (5.0, 3.0, 7.0, 5.0):
            weight = 2.0 / positives  # whatever its coefficient
            for divisor in divisors:
                weight /= divisor
            given = (*divisors, positives)
            shares.append(Share(weight=weight, elements=20.0, node="SmoothL1LossBackward0", divisors=given, summed=True))
        assert found(RULE, run(*shares)) == expected * 2


def test_a_coefficient_that_the_text_shows_is_set_aside(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("alpha = 0.3\nloss = (1 - alpha) * task(x)\nloss.backward()\n")
    for divisors, expected in (((1 / 0.7,), [("warning", 2)]), ((1 / 0.7, 4), []), ((1 / 0.7, 4, 4), [("error", 2)])):
        own = replace(share(*divisors), multiplied=divisors[:1])
        telling = Telling(path=script).tell("OptimizerMade", 3)
        for _ in range(4):
            telling.backward(2, share=own, parts=(own,), divided=at(2, path=str(script)))
        assert found(RULE, telling.step(last=4)) == expected


def test_a_clip_by_hand_is_no_division():
    assert found(RULE, run(*[share(5)] * 5, edits=[(18, 0.37)])) == []


def test_another_number_than_the_window_holds_is_named_where_it_divides():
    assert found(RULE, run(*[share(12)] * 2)) == [("warning", 9), ("note", 10)] * 2


def test_windows_of_which_some_are_right_are_no_matter_of_the_divisor():
    telling = run(*[share(4)] * 4, windows=1)
    assert found(RULE, run(share(4), telling=run(*[share(4)] * 7, telling=telling, windows=3), windows=1)) == []


@pytest.mark.parametrize("coefficient", [2.0, 1 / 3, 10.0])
def test_a_coefficient_of_the_loss_is_the_authors(coefficient):
    assert found(RULE, run(*[share(coefficient, 4)] * 4)) == []


def test_a_sum_of_elements_tells_nothing_of_its_divisor():
    shares = [Share(weight=1 / 16, elements=40.0, node="SumBackward0", divisors=(16.0,))] * 4
    assert found(RULE, run(*shares)) == []


def test_a_term_that_was_left_out_of_the_division_is_named():
    assert found(RULE, run(*[share(8)] * 8, parts=(share(2.0, node="MeanBackward0"),))) == [("warning", 9), ("note", 10)] * 2


def test_terms_that_all_were_divided_are_right():
    assert found(RULE, run(*[share(8)] * 8, parts=(share(8, 2.0, node="MeanBackward0"),))) == []


def test_losses_of_several_heads_are_no_microbatches():
    telling = Telling().tell("OptimizerMade")
    for _ in range(3):
        for reached in (0, 1):
            telling.backward(share=share(), parts=(share(),), reached=reached)
        telling.step(last=2)
    assert found(RULE, telling) == []


def test_a_last_microbatch_with_a_line_of_its_own_is_one_of_them():
    for forward, expected in ((8, [("warning", 14)]), (None, [])):
        telling = Telling().tell("OptimizerMade")
        for line in (12, 12, 14):
            telling.backward(line, share=share(), parts=(share(),), forward=forward and at(forward))
        assert found(RULE, telling.step(last=3)) == expected


def test_several_backwards_of_one_forward_are_no_microbatches():
    assert found(RULE, run(*[share()] * 3, forwards=0)) == []


def test_a_loss_that_cannot_be_read_tells_nothing():
    telling = Telling().tell("OptimizerMade").backward().backward().step(last=2)
    assert found(RULE, telling) == []
