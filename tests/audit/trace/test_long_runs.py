"""A mistake that begins late is found: by the order of calls, which is recorded always, or by the windows that are sampled."""

import tracemalloc

import pytest
import torch
from torch import nn

from tests.profile import FULL
from truestep.audit.events import Backward, Stepped, Ticked
from truestep.audit.judge import judge
from truestep.audit.site import Place, Site
from truestep.audit.story import Story
from truestep.audit.trace import start
from truestep.audit.trace.recorder import ALIKE, DENSE, RETURNS, RUN, Recorder

BEGINS = 5000 if FULL else 600


def train(updates, *, mistake=None, begins=0, skips=()):
    """A loop that is right until the mistake begins."""
    torch.manual_seed(0)
    model, data = nn.Linear(4, 2), torch.randn(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=10 * updates)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=10**6)
    for number in range(updates):
        wrong = mistake if number >= begins else None
        factor = torch.inf if number in skips else 1.0
        scaler.scale((model(data) * factor).square().mean()).backward()
        if wrong == "clip-before-unscale":
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        scaler.unscale_(optimizer)
        if wrong != "clip-before-unscale":
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        if wrong == "scheduler-clock":  # noqa: SIM114 - the wrong call has a line of its own
            scheduler.step()
        elif scaler.get_scale() >= before:
            scheduler.step()
        if wrong != "zero-grad-placement":
            optimizer.zero_grad()


def examined(*args, **kwargs):
    """The recorder, and the rules that found something worse than a note."""
    watcher = start()
    try:
        train(*args, **kwargs)
    finally:
        watcher.stop()
    recorder = watcher.recorder
    assert recorder.coverage()["not_judged"] == []
    story = Story(events=tuple(recorder.events), totals=recorder.totals())
    return recorder, {finding.rule for finding in judge(story) if finding.severity != "note"}


@pytest.mark.parametrize("mistake", ["clip-before-unscale", "zero-grad-placement", "scheduler-clock"])
def test_a_mistake_that_begins_late_is_found_and_nothing_is_where_it_does_not_begin(mistake):
    assert not Recorder().will_judge(BEGINS)
    skips = (*range(3, BEGINS, BEGINS // 12), BEGINS + 3)  # few, for each halves the scale
    _, found = examined(BEGINS + 20, mistake=mistake, begins=BEGINS, skips=skips)
    assert mistake in found
    assert examined(BEGINS // 4, skips=skips)[1] == set()


def windows(recorder, updates, *, each=lambda number: None, micro=1):
    """What `updates` windows of a plain loop tell a recorder; the numbers of those that were judged."""
    judged = []
    for number in range(recorder.chunk, recorder.chunk + updates):
        for _ in range(micro(number) if callable(micro) else micro):
            recorder.backwards += 1
            recorder.emit(Backward, site=site(1), **backward(recorder.backwards))
        if recorder.judging:
            judged.append(number)
        recorder.emit(Stepped, site=site(2), **stepped(recorder.backwards))
        each(number)
    return judged


def site(line):
    return Site(place=Place(path="train.py", line=line))


def backward(number):
    fields = dict.fromkeys(Backward.__dataclass_fields__)
    del fields["order"], fields["site"]
    return fields | {"number": number, "scale": 1.0, "carried": "none", "touched": (0,), "kept": ()}


def stepped(number):
    fields = dict.fromkeys(Stepped.__dataclass_fields__)
    del fields["order"], fields["site"]
    return fields | {"optimizer": 0, "completed": True, "backwards": (number,), "dropped": ()}


def tick(recorder, line):
    fields = dict.fromkeys(Ticked.__dataclass_fields__)
    del fields["order"], fields["site"]
    recorder.emit(Ticked, site=site(line), **fields | {"scheduler": 0, "optimizer": 0})


def test_the_start_and_a_few_windows_after_each_power_of_two_are_judged():
    judged = windows(Recorder(), 1000)
    assert judged[:DENSE] == list(range(DENSE))
    assert judged[DENSE:] == [power + more for power in (32, 64, 128, 256, 512) for more in range(RUN)]


def test_an_order_of_calls_that_is_new_makes_the_next_windows_judged():
    recorder = Recorder()
    judged = windows(recorder, 900, each=lambda number: tick(recorder, 3) if number >= 700 else None)
    assert judged[-RUN:] == [701, 702, 703, 704]


def test_a_window_that_comes_once_an_epoch_is_judged_itself_from_the_next_epoch_on_and_not_for_ever():
    last = range(99, 2000, 100)
    judged = windows(Recorder(), 2000, micro=lambda number: 3 if number in last else 4)
    assert set(judged) & set(last) == set(last[1 : RETURNS + 1])
    assert len(judged) < 100


def test_windows_of_ever_new_lengths_do_not_make_everything_judged():
    updates = 1000 if FULL else 400
    lengths = torch.randint(1, 2 * updates // 5, (4 * updates,), generator=torch.Generator().manual_seed(0)).tolist()
    recorder = Recorder()
    judged = windows(recorder, updates, micro=lambda number: lengths[number])
    assert len(judged) < updates / 2


def test_what_a_recorder_keeps_is_flat_over_thousands_of_updates():
    recorder, more = Recorder(), 18_000 if FULL else 4_000
    windows(recorder, 1000, micro=2)
    kept = len(recorder.events)
    tracemalloc.start()
    try:
        windows(recorder, 1000, micro=2)
        before, _ = tracemalloc.get_traced_memory()
        windows(recorder, more, micro=2)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(recorder.events) == kept <= 2 * ALIKE * 3
    assert after - before < 5_000
    assert recorder.totals().backwards == 2 * (2_000 + more)
