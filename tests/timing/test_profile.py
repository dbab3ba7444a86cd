"""A profile times the attempts that it was asked for, ends by itself, and changes nothing of what is computed."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import truestep
from tests.engine.loops import Batch, batch, cross_entropy, mlp, optimizer_state, poisoned, same, weights
from truestep.engine.stages import watching
from truestep.timing import profile as room
from truestep.timing import watch
from truestep.timing.profile import Profile, profile

WINDOW = [batch(2), batch(2)]
EACH = ["zero", "forward", "backward", "judge", "apply", "schedule", "bookkeeping"]


def an_update(policy: str = "fp32", model: Any = None) -> truestep.Update[Batch]:
    model = mlp() if model is None else model
    return truestep.Update(model, torch.optim.AdamW(model.parameters()), loss=cross_entropy, policy=policy)


def by_block(update: truestep.Update[Batch]) -> None:
    with update.attempt(total=2) as attempt:
        with attempt.autocast():
            loss = cross_entropy(update.model, batch(2))
        attempt.backward(loss, 2)


def test_the_attempts_after_the_first_are_timed_and_then_it_has_ended() -> None:
    update = an_update()
    with profile(after=2, attempts=3) as found:
        for attempt in range(10):
            assert found.ended == (attempt >= 5)
            update(WINDOW)
    assert watching.watcher is None
    table = found.table
    assert [stage.name for stage in found.stages] == EACH
    assert {stage.attempts for stage in found.stages} == {3}
    assert (table.attempts, table.skipped, table.updates, table.policies, table.device) == (3, 0, 1, ("fp32",), "cpu")
    assert (table.asked.begun, table.asked.trace, table.asked.trace_error) == (5, None, None)
    assert table.least_seconds <= table.median_seconds <= table.most_seconds
    assert table.between_median_seconds is not None
    assert sum(stage.share for stage in found.stages) == pytest.approx(1.0)
    assert table.device_median_seconds is None


def test_what_follows_the_end_is_not_watched() -> None:
    update = an_update()
    with profile(after=0, attempts=1):
        update(WINDOW)
        assert watching.watcher is None
        with profile(after=0, attempts=1) as inner:  # the outer one has ended, so that this one is no nested one
            update(WINDOW)
    assert inner.table.attempts == 1


def test_an_attempt_block_has_a_stage_of_its_own() -> None:
    update = an_update("bf16")
    with profile(after=0, attempts=1) as found:
        by_block(update)
    assert [stage.name for stage in found.stages] == [*EACH[:3], "block", *EACH[3:]]


def test_a_skip_has_its_stage_and_is_told() -> None:
    update = an_update()
    with profile(after=0, attempts=3) as found:
        for window in (WINDOW, [poisoned(batch(2))], WINDOW):
            update(window)
    attempts = {stage.name: stage.attempts for stage in found.stages}
    assert (attempts["apply"], attempts["explain"], found.table.skipped) == (2, 1, 1)
    assert "explain: in 1 of 3 attempts" in str(found)
    assert "1 attempt skipped" in str(found)


def test_an_exception_passes_and_its_attempt_is_not_timed() -> None:
    update = an_update()
    with pytest.raises(ZeroDivisionError), profile(after=0, attempts=9) as found:
        update(WINDOW)
        with update.attempt():
            raise ZeroDivisionError
    assert found.ended
    assert watching.watcher is None
    assert (found.table.asked.begun, found.table.attempts) == (2, 1)
    assert "8 attempts fewer than asked" in str(found)


def test_a_loop_that_goes_on_after_an_exception_gets_the_attempts_it_asked_for() -> None:
    update = an_update()
    with profile(after=1, attempts=2) as found:
        for place in range(6):
            try:
                with update.attempt(total=2) as attempt:
                    if place == 1:
                        raise ZeroDivisionError
                    attempt.backward(cross_entropy(update.model, batch(2)), 2)
            except ZeroDivisionError:
                continue
    assert (found.table.asked.begun, found.table.attempts) == (4, 2)


def test_a_profile_inside_another_is_refused_and_the_outer_one_goes_on() -> None:
    update = an_update()
    with profile(after=0, attempts=1) as found:
        with pytest.raises(truestep.errors.StateError, match="has a profile open already"), profile():
            pass
        update(WINDOW)
    assert found.table.attempts == 1


def test_a_profile_is_used_once() -> None:
    found = profile()
    with found:
        pass
    with pytest.raises(truestep.errors.StateError, match="used already"), found:
        pass


def test_each_thread_has_a_profile_of_its_own() -> None:
    found: dict[int, Profile] = {}
    ready = threading.Barrier(2, timeout=60)

    def loop(attempts: int) -> None:
        update = an_update()
        with profile(after=0, attempts=attempts) as found[attempts]:
            ready.wait()
            for _ in range(5):
                update(WINDOW)
            ready.wait()

    threads = [threading.Thread(target=loop, args=(attempts,)) for attempts in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[attempts].table.attempts for attempts in (2, 3)] == [2, 3]


def test_several_updates_are_told_and_one_can_be_meant() -> None:
    left, right = an_update("fp32"), an_update("bf16")
    with profile(after=0, attempts=4) as both:
        for _ in range(2):
            left(WINDOW), right(WINDOW)
    with profile(after=0, attempts=2, update=right) as one:
        for _ in range(2):
            left(WINDOW), right(WINDOW)
    assert (both.table.updates, both.table.policies) == (2, ("fp32", "bf16"))
    assert "attempts of 2 updates are in one table" in str(both)
    assert (one.table.updates, one.table.policies, one.table.asked.begun) == (1, ("bf16",), 2)


def test_an_attempt_inside_anothers_block_is_timed_too_and_is_no_time_between(monkeypatch: pytest.MonkeyPatch) -> None:
    outer, inner, now = an_update(), an_update(), [0.0]
    monkeypatch.setattr(room, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    with profile(after=0, attempts=3) as found:
        inner(WINDOW)
        now[0] += 1.0
        with outer.attempt(total=2) as attempt:
            attempt.backward(cross_entropy(outer.model, batch(2)), 2)
            now[0] += 10.0
            inner(WINDOW)
    assert (found.table.attempts, found.table.between_median_seconds) == (3, 1.0)


def test_a_block_that_another_thread_leaves_ends_the_profile_too() -> None:
    update = an_update()
    found = profile().__enter__()
    other = threading.Thread(target=found.__exit__, args=(None, None, None))
    other.start()
    other.join()
    update(WINDOW)
    assert (found.ended, found.table.asked.begun, watching.watcher) == (True, 0, None)


def test_a_thread_that_ends_anothers_profile_keeps_its_own() -> None:
    update, opened = an_update(), list[Profile]()
    other = threading.Thread(target=lambda: opened.append(profile().__enter__()))
    other.start()
    other.join()
    with profile(after=0, attempts=1) as own:
        opened[0].__exit__(None, None, None)
        update(WINDOW)
    assert (opened[0].ended, own.table.attempts) == (True, 1)


def test_whoever_keeps_a_profile_keeps_no_model() -> None:
    update = an_update()
    with profile(after=0, attempts=1, update=update) as found:
        update(WINDOW)
    model = weakref.ref(update.model)
    del update
    gc.collect()
    assert model() is None
    assert found.table.attempts == 1


def test_a_compiled_model_is_timed() -> None:
    update = an_update(model=torch.compile(mlp(), backend="eager"))
    with profile(after=1, attempts=2) as found:
        for _ in range(4):
            update(WINDOW)
    assert found.table.attempts == 2


def test_nothing_timed_is_said() -> None:
    with profile() as found:
        an_update()(WINDOW)
    assert str(found).splitlines() == [
        "0 attempts timed",
        "1 attempt began; timed are those after the first 3 and the traced one",
    ]
    assert found.stages == ()


@pytest.mark.parametrize(("asked", "words"), [({"after": -1}, "after is -1"), ({"attempts": 0}, "attempts is 0")])
def test_a_number_that_cannot_be_is_refused(asked: dict[str, int], words: str) -> None:
    with pytest.raises(truestep.errors.UsageError, match=words):
        profile(**asked)


def test_the_record_is_strict_json_of_the_table() -> None:
    update = an_update()
    with profile(after=0, attempts=2) as found:
        update(WINDOW), update(WINDOW)
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["schema"] == 1
    assert [stage["name"] for stage in record["stages"]] == EACH
    assert record["asked"] == {
        "after": 0,
        "attempts": 2,
        "begun": 2,
        "beside_another": False,
        "trace": None,
        "trace_error": None,
    }


def test_printed_it_is_a_row_for_each_stage_the_attempt_and_the_loop_between() -> None:
    update = an_update()
    with profile(after=0, attempts=2) as found:
        update(WINDOW), update(WINDOW)
    title, columns, *rows = str(found).splitlines()
    assert title == "2 attempts timed: fp32 on cpu"
    assert columns.split() == ["stage", "median", "share"]
    assert [row.split()[0] for row in rows] == [*EACH, "attempt", "between", "the"]


@pytest.mark.parametrize("policy", ["fp32", "fp16"])
@pytest.mark.parametrize("window", [WINDOW, [batch(2), poisoned(batch(2))]], ids=["completed", "skipped"])
def test_a_profile_changes_no_bit(policy: str, window: list[Batch], tmp_path: Any) -> None:
    left, right = an_update(policy), an_update(policy)

    def loop(update: truestep.Update[Batch]) -> None:
        for seed in range(4):
            update([batch(4, seed)])
            update(window)

    loop(left)
    with profile(tmp_path / "trace.json", after=1, attempts=5) as found:
        loop(right)
    assert found.ended
    assert found.table.asked.trace is not None
    assert same(weights(left.model), weights(right.model))
    assert same(optimizer_state(left.optimizers[0]), optimizer_state(right.optimizers[0]))
    assert (left.counts, left.scale) == (right.counts, right.scale)


class FakeClock:
    """A device that comes to each mark a second after the one before, and is asked when somebody waits for it."""

    def __init__(self) -> None:
        self.marks = self.waits = 0

    def mark(self) -> None:
        self.marks += 1

    def between(self, marks: list[None]) -> list[float]:
        self.waits += 1
        return [1.0] * (len(marks) - 1)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """In the place of a CUDA device's events."""
    clock = FakeClock()
    monkeypatch.setattr(watch, "clock_of", lambda device: clock)
    return clock


@pytest.mark.parametrize(("run", "forwards"), [(lambda update: update(WINDOW), 2), (by_block, 1)], ids=["call", "block"])
def test_a_devices_time_is_told_beside_the_hosts_and_waited_for_only_when_it_is_read(
    run: Callable[[Any], object], forwards: int, device: FakeClock
) -> None:
    update = an_update()
    with profile(after=1, attempts=2) as found:
        for _ in range(4):
            run(update)
    turns = 1 + 4 * forwards + 4  # what stands between, forward, between, backward, and the four at the end
    assert (device.marks, device.waits) == (2 * (turns + 2), 0), "of the timed attempts alone: their beginning, turns and end"
    seconds = {stage.name: stage.device_median_seconds for stage in found.stages}
    assert device.waits == 2, "once for each timed attempt"
    assert (seconds["zero"], seconds["forward"], seconds["backward"], seconds["judge"]) == (1.0, forwards, forwards, 1.0)
    assert found.table.device_median_seconds == sum(seconds.values())
    assert sum(stage.device_share for stage in found.stages) == pytest.approx(1.0)
    assert device.waits == 2, "and kept"
    assert str(found).splitlines()[1].split() == ["stage", "median", "share", "on", "the", "device", "share", "there"]
    assert "waits for it in judge" in str(found)
