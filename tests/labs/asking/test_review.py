"""What was wrong comes first, then what was unsure, then what was long ago; intervals double, and a wrong answer ends them."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from truestep.labs.asking.progress import Answered
from truestep.labs.asking.review import DAY, LONGEST, due, session, standings

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["a/1", "a/2", "b/1", "b/2", "c/1"]


def answered(name, days, right=True, confidence=5):
    return Answered(
        name=name, time=BEGUN + timedelta(days=days), right=right, points=int(right), total=1, confidence=confidence, answer=None
    )


HISTORY = st.lists(
    st.builds(answered, st.sampled_from(NAMES), st.floats(0, 400), st.booleans(), st.integers(1, 5)), max_size=30
).map(lambda answers: sorted(answers, key=lambda each: each.time))
NOW = st.floats(0, 800).map(lambda days: BEGUN + timedelta(days=days))


@given(HISTORY, NOW)
def test_the_wrong_then_the_unsure_then_the_long_ago(history, now):
    reasons = list(due(history, now).values())
    assert reasons == sorted(reasons, key=["wrong", "unsure", "long ago"].index)


@given(HISTORY, NOW)
def test_due_is_what_was_wrong_or_unsure_or_is_past_its_interval(history, now):
    waiting = due(history, now)
    for name, standing in standings(history).items():
        last = standing.last
        if not last.all_right:
            assert waiting[name] == "wrong"
        elif last.confidence <= 2:
            assert waiting[name] == "unsure"
        else:
            assert (name in waiting) == (now >= last.time + standing.interval)


@given(HISTORY, NOW)
def test_a_session_asks_each_at_most_once_and_what_is_new_last_and_in_order(history, now):
    asked = session(NAMES, history, now)
    new = [name for name in NAMES if name not in {each.name for each in history}]
    assert len(set(asked)) == len(asked)
    assert list(asked[len(asked) - len(new) :]) == new
    assert list(asked[: len(asked) - len(new)]) == list(due(history, now))


@given(HISTORY)
def test_an_interval_is_a_power_of_two_of_days_and_a_day_after_a_wrong_answer(history):
    for standing in standings(history).values():
        assert standing.interval in [2**power * DAY for power in range(11)]
        assert standing.last.all_right or standing.interval == DAY


def test_each_right_answer_in_its_time_doubles_the_interval_up_to_a_limit():
    history, seen, day = [], [], 0
    for _ in range(13):
        history.append(answered("a/1", day))
        interval = standings(history)["a/1"].interval
        seen.append(interval.days)
        day += interval.days
    assert seen == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]
    assert seen[-1] == LONGEST.days


def test_answers_within_an_hour_prove_no_memory():
    history = [answered("a/1", hour / 24) for hour in range(5)]
    assert standings(history)["a/1"].interval == DAY


def test_a_wrong_answer_takes_it_back_to_a_day_and_the_next_right_one_stays_there():
    history = [answered("a/1", 0), answered("a/1", 1), answered("a/1", 3), answered("a/1", 7, right=False)]
    assert standings(history[:3])["a/1"].interval == 4 * DAY
    assert standings(history)["a/1"].interval == DAY
    assert standings([*history, answered("a/1", 8)])["a/1"].interval == DAY


def test_a_clock_that_was_set_back_doubles_nothing():
    assert standings([answered("a/1", 5), answered("a/1", 0)])["a/1"].interval == DAY
