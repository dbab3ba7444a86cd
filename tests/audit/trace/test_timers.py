"""Clocks under watch give what they gave, for anybody, and looking into a frame leaves nothing in it."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import time
import timeit
import weakref
from collections import defaultdict

import pytest
import torch

from truestep.audit.events import Backward, Rated, Stepped
from truestep.audit.site import Place, Site
from truestep.audit.trace import timers
from truestep.audit.trace.looking import looking_into
from truestep.audit.trace.patches import Patches
from truestep.audit.trace.recorder import Recorder
from truestep.audit.trace.throughput import Moment, Throughput


@pytest.fixture
def watched():
    recorder, patches = Recorder(), Patches()
    timers.install(recorder, patches)
    yield recorder
    patches.undo()


def backward(number, *, examples=4, tokens=12, line=5, forwards=1):
    site = Site(Place("train.py", line))
    return Backward(
        order=number,
        site=site,
        number=number,
        scaler=None,
        scale=1.0,
        carried="all",
        touched=(1,),
        kept=(),
        loss=None,
        finite=None,
        norm=None,
        share=None,
        unread=None,
        divided=None,
        forward=site,
        forwards=forwards,
        low=None,
        inside_autocast=False,
        synced=None,
        examples=examples,
        tokens=tokens,
    )


def stepped(backwards, *, optimizer=1, completed=True, closure=False):
    return Stepped(
        order=0,
        site=None,
        optimizer=optimizer,
        scaler=None,
        completed=completed,
        closure=closure,
        fused=False,
        lr=0.1,
        backwards=tuple(backwards),
        dropped=(),
        carried=1.0,
        finite=None,
        judged=None,
        damage=None,
        moved=None,
        first=False,
    )


def throughput(*events):
    found = Throughput()
    for event in events:
        found.note(event)
    return found


@pytest.mark.parametrize("name", timers.CLOCKS)
def test_a_watched_clock_tells_the_same_time(watched, name):
    clock = getattr(time, name)
    original = clock.__wrapped__
    before, now, after = original(), clock(), original()
    assert type(now) is type(before)
    assert before <= now <= after


@pytest.mark.parametrize("name", timers.CLOCKS)
def test_a_watched_clock_is_pickled_and_copied_by_its_name(watched, name):
    clock = getattr(time, name)
    assert pickle.loads(pickle.dumps(clock)) is clock
    assert copy.deepcopy(clock) is clock
    assert (clock.__name__, clock.__module__, clock.__doc__) == (name, "time", clock.__wrapped__.__doc__)


def test_a_watched_clock_refuses_what_the_clock_refuses(watched):
    with pytest.raises(TypeError):
        time.perf_counter(1)


def test_the_clocks_are_put_back():
    before = {name: getattr(time, name) for name in timers.CLOCKS}
    timer, recorder, patches = timeit.default_timer, Recorder(), Patches()
    timers.install(recorder, patches)
    assert time.time is not before["time"]
    patches.undo()
    assert {name: getattr(time, name) for name in timers.CLOCKS} == before
    assert timeit.default_timer is timer
    assert "emit" not in vars(recorder)


def test_events_are_emitted_as_before(watched):
    event = watched.emit(Rated, site=None, **_rated())
    assert watched.events == [event]
    assert event.order == 1


def _rated():
    names = [each for each in inspect.signature(Rated).parameters if each not in ("order", "site")]
    return dict.fromkeys(names, 1)


def test_a_fault_of_the_audit_never_reaches_the_script(watched, monkeypatch):
    monkeypatch.setattr(timers, "OWNERS", {})
    assert time.time() > 0
    assert [each for each in watched.coverage()["not_judged"] if "failed" in each["what"]]


def test_the_moments_of_the_first_and_of_the_last_readings_are_known(watched, monkeypatch):
    monkeypatch.setattr(timers, "READINGS", 8)
    monkeypatch.setattr(timers, "FIRST", 2)
    found = timers.Timers(watched)
    clock = found.watched(iter(range(20)).__next__)
    monkeypatch.setattr(timers, "OWNERS", defaultdict(lambda: "user"))
    readings = []
    for _ in range(20):
        readings.append(clock())
    assert readings == list(range(20))
    assert {0.0, 1.0, 16.0, 17.0, 18.0, 19.0} <= set(found._moments)
    assert len(found._moments) <= 8


def test_looking_into_a_function_keeps_nothing_of_it_alive():
    seen = []

    def run():
        value = torch.ones(2)
        gone = weakref.ref(value)
        with looking_into(sys._getframe()) as views:
            seen.append("value" in views[0].variables)
        del value
        gc.collect()
        return gone() is None

    assert run()
    assert seen == [True]


def test_a_function_that_looks_at_its_own_variables_is_left_alone():
    def run():
        mine = locals()
        before = dict(mine)
        with looking_into(sys._getframe()) as views:
            functions = [view.function for view in views]
        return before == mine, functions

    same, functions = run()
    assert same
    assert "run" not in functions


def test_a_stretch_counts_whole_attempts():
    found = throughput(backward(1), backward(2), stepped([1, 2]), backward(3), backward(4), stepped([3, 4], completed=False))
    stretch = found.between(Moment(0, 0), found.moment)
    assert (stretch.backwards, stretch.attempts, stretch.skipped) == (4, 2, 1)
    assert (stretch.examples.one, stretch.examples.total, stretch.examples.equal) == (4, 16, True)
    assert [each.total for each in stretch.tokens] == [48, 64]


def test_a_stretch_of_two_optimizers_counts_where_both_used_all():
    both = throughput(backward(1), stepped([1]), stepped([1], optimizer=2))
    assert both.between(Moment(0, 0), both.moment).attempts == 1


@pytest.mark.parametrize(
    "events",
    [
        (backward(1), backward(2)),
        (backward(1), backward(2), stepped([2])),
        (backward(1), stepped([1], closure=True)),
        (backward(1), backward(2, line=6), stepped([1, 2])),
        (backward(1), backward(2, forwards=0), stepped([1, 2])),
        (backward(1), stepped([1]), backward(2), stepped([2], optimizer=2)),
        (stepped([]),),
    ],
    ids=["open", "dropped", "closure", "two lines", "one forward", "two networks", "nothing"],
)
def test_other_stretches_are_not_counted(events):
    found = throughput(*events)
    assert found.between(Moment(0, 0), found.moment) is None


def test_a_stretch_that_begins_within_an_attempt_is_not_counted():
    found = throughput(backward(1), backward(2), stepped([1, 2]))
    assert found.between(Moment(1, 0), found.moment) is None


def stretch(*sizes, attempts=1):
    events = [backward(number, examples=size, tokens=None) for number, size in enumerate(sizes, 1)]
    each = len(sizes) // attempts
    steps = [stepped(range(1 + index * each, 1 + (index + 1) * each)) for index in range(attempts)]
    found = throughput(*events, *steps)
    return found.between(Moment(0, 0), found.moment)


@pytest.mark.parametrize(
    ("values", "whole", "ranks", "fits"),
    [
        ((16.0,), stretch(4, 4, 4, 4), 1, True),
        ((32.0,), stretch(4, 4, 4, 4), 2, True),
        ((5.0, 16.0), stretch(4, 4, 4, 4), 1, True),
        ((6.0,), stretch(6, 6, 6, 6), 1, True),
        ((12.0,), stretch(6, 6, 6, 6, attempts=2), 1, True),
        ((18.0,), stretch(6, 6, 6, 6), 1, False),
        ((4.0,), stretch(4, 4, 4, 4), 1, False),
        ((1.0,), stretch(1, 1, 1, 1, attempts=2), 1, False),
        ((2.0,), stretch(2, 2, 2, 2, 2, 2, attempts=2), 1, False),
        ((6.0,), stretch(6, 6, 5), 1, True),
        ((5.0,), stretch(6, 6, 5), 1, False),
    ],
)
def test_a_value_fits_all_or_one_backward_but_not_what_may_count_attempts(values, whole, ranks, fits):
    value, amount = timers.matched(values, whole, ranks)
    assert (amount is not None) is fits
    if fits:
        assert value in (values[-1], values[-1] / ranks)
