"""The trace of one attempt is a file that a reader of traces opens, with our stages as ranges; it costs no training anything."""

from __future__ import annotations

import gzip
import json
import os
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity

import truestep
from tests.engine.loops import Batch, batch, cross_entropy, mlp
from tests.no_room import NO_ROOM, no_room
from truestep.disk import atomic
from truestep.engine.stages import watching
from truestep.timing.profile import Profile, profile

WINDOW = [batch(2), batch(2)]
EACH = ["forward", "bookkeeping", "backward", "bookkeeping"]
STAGES = ["zero", "bookkeeping", *EACH, *EACH, "judge", "apply", "schedule", "bookkeeping"]


@pytest.fixture
def update() -> truestep.Update[Batch]:
    model = mlp()
    return truestep.Update(model, torch.optim.AdamW(model.parameters()), loss=cross_entropy, policy="bf16")


def events(path: Path) -> list[dict[str, Any]]:
    """Those of a trace that take time."""
    raw = path.read_bytes()
    document = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


def ranges(path: Path) -> list[tuple[str, float, float]]:
    """(name, beginning, end) of ours, in their order."""
    found = [event for event in events(path) if event["name"].startswith("truestep.")]
    return [(each["name"].removeprefix("truestep."), each["ts"], each["ts"] + each["dur"]) for each in found]


def test_the_trace_is_of_the_attempt_after_the_warm_up_and_there_when_it_is_over(
    update: truestep.Update[Batch], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    with profile(path, after=2, attempts=1) as found:
        for attempt in range(4):
            assert path.exists() == (attempt >= 3)
            update(WINDOW)
    assert [name for name, _, _ in ranges(path)].count("attempt") == 1
    assert found.table.asked.trace == str(path)
    assert (found.table.attempts, found.table.asked.begun) == (1, 4), "the traced one is not timed"
    assert str(found).splitlines()[-1] == f"trace  {path}"


def test_the_ranges_of_the_stages_follow_each_other_inside_that_of_the_attempt(
    update: truestep.Update[Batch], tmp_path: Path
) -> None:
    with profile(tmp_path / "trace.json", after=1, attempts=1):
        for _ in range(3):
            update(WINDOW)
    (attempt, begin, end), *stages = ranges(tmp_path / "trace.json")
    assert (attempt, [name for name, _, _ in stages]) == ("attempt", STAGES)
    edges = [begin, *(edge for _, *both in stages for edge in both), end]
    # a trace's times have 0.001 microseconds, and an end is a sum of two of them
    assert all(after >= before - 0.002 for before, after in pairwise(edges))


def test_the_models_operations_lie_inside_forward_and_the_optimizers_inside_apply(
    update: truestep.Update[Batch], tmp_path: Path
) -> None:
    with profile(tmp_path / "trace.json", after=1, attempts=1):
        for _ in range(3):
            update(WINDOW)
    spans = ranges(tmp_path / "trace.json")

    def inside(event: dict[str, Any]) -> set[str]:
        return {name for name, begin, end in spans if begin <= event["ts"] < end} - {"attempt"}

    there: dict[str, set[str]] = {}
    for event in events(tmp_path / "trace.json"):
        there.setdefault(event["name"], set()).update(inside(event))
    assert there["aten::cross_entropy_loss"] == {"forward"}
    assert there["autograd::engine::evaluate_function: NllLossBackward0"] == {"backward"}
    assert there["Optimizer.step#AdamW.step"] == {"apply"}


def test_a_name_that_ends_in_gz_packs_it_and_what_is_there_is_replaced(update: truestep.Update[Batch], tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_text("an older one")
    with profile(path, after=0, attempts=1):
        update(WINDOW), update(WINDOW)
    assert ranges(path)[0][0] == "attempt"
    assert os.listdir(tmp_path) == ["trace.json.gz"]


@pytest.mark.parametrize("place", [1, 2], ids=["in the traced attempt", "after it"])
def test_the_trace_is_written_also_where_the_loop_raises(place: int, update: truestep.Update[Batch], tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), profile(tmp_path / "trace.json", after=1, attempts=9) as found:
        for _ in range(place):
            update(WINDOW)
        with update.attempt():
            raise ZeroDivisionError
    assert ranges(tmp_path / "trace.json")[0][0] == "attempt"
    assert found.table.asked.trace_error is None


def test_an_exception_before_the_traced_attempt_keeps_its_kind_and_says_that_there_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as raised, profile(tmp_path / "trace.json"):
        raise ZeroDivisionError
    assert raised.value.__notes__ == ["no trace was written: it was to be of attempt 4, and 0 attempts began"]


@pytest.mark.parametrize("path", ["nowhere/trace.json", "."])
def test_a_path_that_cannot_be_written_is_refused_before_anything_runs(path: str, tmp_path: Path) -> None:
    with pytest.raises(truestep.errors.FileError, match="no trace can be written") as raised, profile(tmp_path / path):
        pytest.fail("nothing may run")
    assert "nothing was run" in raised.value.hint
    assert watching.watcher is None


def test_a_disk_that_is_full_costs_the_trace_and_no_attempt(update: truestep.Update[Batch], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"

    def loop() -> Profile:
        with profile(path, after=1, attempts=2) as found:
            with no_room(4096):
                for _ in range(3):
                    update(WINDOW)
            update(WINDOW)
        return found

    with pytest.warns(RuntimeWarning, match=f"no trace was written at {path}"):
        found = loop()
    assert (update.counts.completed, found.table.attempts) == (4, 2)
    assert "is there room?" in str(found).splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_in_the_systems_words(
    update: truestep.Update[Batch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = atomic.write

    def full(path: Path, content: bytes) -> None:
        with no_room():
            write(path, content)

    monkeypatch.setattr(atomic, "write", full)
    with pytest.warns(RuntimeWarning, match=NO_ROOM), profile(tmp_path / "trace.json", after=0, attempts=1):
        update(WINDOW), update(WINDOW)
    assert list(tmp_path.iterdir()) == []


def test_what_torchs_profiler_raises_costs_the_trace_and_no_attempt(
    update: truestep.Update[Batch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("no such activity")

    monkeypatch.setattr(torch.profiler.profile, "stop_trace", broken)
    words = "torch.profiler failed: RuntimeError: no such activity"
    with pytest.warns(RuntimeWarning, match=words), profile(tmp_path / "trace.json", after=0, attempts=1) as found:
        update(WINDOW), update(WINDOW)
    assert (update.counts.completed, found.table.attempts) == (2, 1)
    monkeypatch.undo()
    torch.autograd.profiler._run_on_profiler_stop()  # as stop_trace would have
    torch._C._autograd._disable_profiler()


@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_a_loop_that_ends_before_the_traced_attempt_is_told_and_leaves_torchs_profiler_free(
    attempts: int, update: truestep.Update[Batch], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def loop() -> None:
        with profile(tmp_path / "a.json", after=2):
            for _ in range(attempts):
                update(WINDOW)

    with pytest.warns(RuntimeWarning, match="it was to be of attempt 3, and"):
        loop()
    assert not torch.autograd.profiler._is_profiler_enabled
    assert "no active profiling session" not in capfd.readouterr().err
    with profile(tmp_path / "b.json", after=0, attempts=1):
        update(WINDOW), update(WINDOW)
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


def test_beside_a_torch_profiler_of_ones_own_a_trace_is_refused_and_without_one_the_ranges_are_in_theirs(
    update: truestep.Update[Batch], tmp_path: Path
) -> None:
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as own:
        with pytest.raises(truestep.errors.StateError, match=r"another torch\.profiler is running"), profile(tmp_path / "a.json"):
            pass
        with profile(after=1, attempts=1) as found:
            update(WINDOW), update(WINDOW)
    assert [event.name for event in own.events()].count("truestep.attempt") == 2
    assert "another torch.profiler was recording" in str(found)


@pytest.mark.parametrize("before", [0, 2], ids=["before ours is prepared", "before ours starts"])
def test_a_torch_profiler_that_came_in_between_is_left_alone(before: int, update: truestep.Update[Batch], tmp_path: Path) -> None:
    def loop() -> torch.profiler.profile:
        with profile(tmp_path / "a.json", after=2):
            for _ in range(before):
                update(WINDOW)
            with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as own:
                for _ in range(4):
                    update(WINDOW)
            update(WINDOW)
        return own

    with pytest.warns(RuntimeWarning, match=r"another torch\.profiler was running"):
        own = loop()
    assert [event.name for event in own.events()].count("truestep.attempt") == 4
    with profile(tmp_path / "b.json", after=0, attempts=1):
        update(WINDOW), update(WINDOW)
    assert (tmp_path / "b.json").exists()


def test_of_two_threads_that_want_a_trace_at_once_one_gets_it_and_the_other_is_told(tmp_path: Path) -> None:
    ready = threading.Barrier(2, timeout=60)
    errors: list[str | None] = []

    def loop(name: str, *, is_first: bool) -> None:
        model = mlp()
        update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
        found = profile(tmp_path / name, after=1, attempts=1)
        found.__enter__()
        if is_first:
            update(WINDOW)  # prepares
        ready.wait()
        if not is_first:
            update(WINDOW), update(WINDOW)
        ready.wait()
        if is_first:
            update(WINDOW)
        update(WINDOW)
        found._end()
        errors.append(found.table.asked.trace_error)

    threads = [threading.Thread(target=loop, args=(name,), kwargs={"is_first": name == "a"}) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {error is None for error in errors} == {True, False}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
