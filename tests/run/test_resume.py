"""Law 14, resume: a run that was killed at any moment goes on bit for bit, and nothing is counted twice."""

import itertools
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from tests.profile import product
from truestep import LossScale, SkipAlarm
from truestep.checkpoint import read_checkpoint
from truestep.engine.randomness import Drawn
from truestep.errors import CheckpointError, UsageError
from truestep.ledger import read, summarize
from truestep.run import RunRecord, Saving, Settings, train
from truestep.run.clocks import Clocks, Stopwatch, resumed
from truestep.run.heartbeat import HEARTBEAT_BYTES, Heartbeat, last_beat
from truestep.run.saving import HEARTBEAT

# A loss scale that overflows at first, and grows again after every third completed attempt until it overflows.
MOVING = LossScale.dynamic(init=2.0**20, interval=3)
HALF = Settings(device="cpu", policy="fp16", scale=MOVING, budget_attempts=14, clock="attempt", threads=1)
PLAIN = Settings(device="cpu", budget_attempts=14, threads=1)


class KilledError(BaseException):
    """Stands for the end of a process: nothing of the run's may catch it."""


class Noisy(nn.Module):
    """Batch normalisation and dropout, and a draw of NumPy's: buffers and random state in training."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        noise = float(np.random.rand()) if self.training else 0.0
        out: Tensor = self.layers(x) + noise
        return out


class Shaken:
    """A dataset whose items are augmented at random."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        x, y = self.data[index]
        return x + torch.randn(2) * float(np.random.rand()), y


def noisy(line_with: Any, *, workers: int | None = None) -> Any:
    """A task with everything that a resume can lose."""
    task = line_with(
        model=Noisy,
        batch=6,  # windows of 6 and 4
        evaluate_every=30,  # after attempts 6 and 12
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.05),
        scheduler=lambda optimizer, ticks: LambdaLR(optimizer, lambda tick: 1.0 - tick / (2 * ticks)),
        workers=workers,
    )
    if workers is not None:
        splits = task.splits()
        task.splits, digest = lambda: replace(splits, train=Shaken(splits.train)), task.digest()
        task.digest = lambda: digest  # its items differ from call to call
    return task


def result(record: RunRecord) -> tuple[Any, ...]:
    """All of a record that does not hang on time."""
    places = [(place.examples, place.completed, place.quality) for place in record.evaluations]
    reached = record.to_target and replace(record.to_target, seconds=0.0)
    return record.status, record.counts, record.weights_digest, record.test_quality, places, reached


def killed_after(attempts: int) -> Callable[[Any], None]:
    """A progress that ends the process after so many attempts of its own."""
    made = itertools.count(1)

    def progress(_: Any) -> None:
        if next(made) == attempts:
            raise KilledError

    return progress


def resumed_until_it_ends(
    task: Any, settings: Settings, folder: Path, *, lives: int, every: int | None, **more: Any
) -> RunRecord:
    """The record of a run whose processes each live for `lives` attempts."""
    for life in range(100):
        try:
            return train(
                task,
                settings,
                seed=3,
                ledger=folder / "run.jsonl",
                checkpoints=Saving(folder=folder / "checkpoints", every_attempts=every),
                resume=life > 0,
                progress=killed_after(lives),
                **more,
            )
        except KilledError:
            torch.rand(life + 1)
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    ("life", "settings", "workers"),
    product([(3, 1), (3, 2), (5, 4), (7, None)], [HALF, PLAIN], [None, 0, 2], every=5),
    ids=lambda value: value.policy if isinstance(value, Settings) else str(value),
)
def test_a_run_that_died_goes_on_bit_for_bit(
    line_with: Any, tmp_path: Path, life: tuple[int, int | None], settings: Settings, workers: int | None
) -> None:
    lives, every = life
    undisturbed = train(noisy(line_with, workers=workers), settings, seed=3)
    if settings is HALF:
        assert undisturbed.counts.skipped > 1
    record = resumed_until_it_ends(noisy(line_with, workers=workers), settings, tmp_path, lives=lives, every=every)
    assert result(record) == result(undisturbed)
    summary = summarize(read(tmp_path / "run.jsonl"))
    assert summary.counts == undisturbed.counts
    assert summary.missing_attempts == 0
    assert (summary.wasted_attempts > 0) == (every != 1)


@pytest.mark.parametrize("stopped_at", [1, 4, 6, 7])
def test_a_run_that_was_stopped_is_saved_where_it_stands_and_loses_nothing(
    line_with: Any, tmp_path: Path, stopped_at: int
) -> None:
    undisturbed = train(noisy(line_with), HALF, seed=3)
    saved: dict[str, Any] = {"ledger": tmp_path / "run.jsonl", "checkpoints": Saving(folder=tmp_path / "checkpoints")}
    asked = itertools.count(1)
    first = train(noisy(line_with), HALF, seed=3, stop=lambda: next(asked) == stopped_at, **saved)
    assert (first.status, first.counts.attempts) == ("stopped", stopped_at)
    record = train(noisy(line_with), HALF, seed=3, resume=True, **saved)
    assert result(record) == result(undisturbed)
    assert summarize(read(tmp_path / "run.jsonl")).wasted_attempts == 0


@pytest.mark.parametrize("stop_at_target", [True, False])
def test_a_target_that_was_met_stays_met(line_with: Any, tmp_path: Path, stop_at_target: bool) -> None:
    settings = replace(PLAIN, target=1e9, evaluate_every=10, stop_at_target=stop_at_target)
    undisturbed = train(noisy(line_with), settings, seed=3)
    assert undisturbed.status == "reached"
    record = resumed_until_it_ends(noisy(line_with), settings, tmp_path, lives=2, every=None)
    assert result(record) == result(undisturbed)
    again = train(noisy(line_with), settings, seed=3, checkpoints=Saving(folder=tmp_path / "checkpoints"), resume=True)
    assert result(again) == result(undisturbed), "a run that was over makes no attempt"


def test_a_run_resumed_when_its_seconds_are_spent_counts_in_its_ledger_what_it_counts_itself(
    line_with: Any, tmp_path: Path
) -> None:
    settings = replace(PLAIN, budget_seconds=1e6)
    saved: dict[str, Any] = {
        "ledger": tmp_path / "run.jsonl",
        "checkpoints": Saving(folder=tmp_path / "checkpoints", every_attempts=4),
    }
    with pytest.raises(KilledError):
        train(line_with(evaluate_every=1000), settings, seed=3, progress=killed_after(7), **saved)
    Heartbeat(tmp_path / "checkpoints" / HEARTBEAT).beat(Clocks(train=2e6), 1.0)  # so long its process had lived
    record = train(line_with(evaluate_every=1000), settings, seed=3, resume=True, **saved)
    summary = summarize(read(tmp_path / "run.jsonl"))
    assert record.status == "budget"
    assert (record.counts.attempts, summary.wasted_attempts) == (4, 3)
    assert summary.counts == record.counts


@pytest.mark.parametrize("settings", [HALF, PLAIN], ids=["fp16", "fp32"])
@pytest.mark.parametrize(
    ("error", "stopped", "status"),
    [
        (RuntimeError("DataLoader worker (pid 1) is killed by signal: Terminated"), True, "stopped"),
        (RuntimeError("a fault of the task"), False, "error"),
        (torch.OutOfMemoryError("CUDA out of memory"), False, "out of memory"),
    ],
    ids=["stopped", "error", "out-of-memory"],
)
def test_a_run_whose_attempt_fails_is_saved_before_it_and_goes_on_bit_for_bit(
    line_with: Any, tmp_path: Path, settings: Settings, error: Exception, stopped: bool, status: str
) -> None:
    undisturbed = train(noisy(line_with), settings, seed=3)
    saved: dict[str, Any] = {"ledger": tmp_path / "run.jsonl", "checkpoints": Saving(folder=tmp_path / "checkpoints")}
    failing, made, failed = noisy(line_with), list[Any](), list[bool]()
    loss = failing.loss

    def fails(model: nn.Module, microbatch: Any) -> Tensor:
        value: Tensor = loss(model, microbatch)
        if len(made) == 8:  # numbers are drawn, and batch statistics have moved
            failed.append(stopped)
            raise error
        return value

    failing.loss = fails
    first = train(failing, settings, seed=3, progress=made.append, stop=lambda: any(failed), **saved)
    assert (first.status, first.counts.attempts) == (status, 8), "the last evaluation was after attempt 6"
    assert str(error) in (first.detail or "")
    record = train(noisy(line_with), settings, seed=3, resume=True, **saved)
    assert result(record) == result(undisturbed)
    assert summarize(read(tmp_path / "run.jsonl")).wasted_attempts == 0


def test_the_random_state_is_kept_once_an_attempt_however_often_it_is_saved(
    line_with: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    now = Drawn.now
    counted = SimpleNamespace(now=lambda device: kept.append(device) or now(device))
    monkeypatch.setattr(sys.modules[train.__module__], "Drawn", counted)
    saving = Saving(folder=tmp_path, every_attempts=1)
    record = train(noisy(line_with), Settings(budget_attempts=6), seed=3, checkpoints=saving)
    assert record.counts.attempts == 6
    assert len(kept) == 7, "before the first, and after each"


def test_a_run_whose_first_attempt_fails_leaves_nothing_to_go_on_with(line_with: Any, tmp_path: Path) -> None:
    def fails(model: nn.Module, microbatch: Any) -> Tensor:
        raise RuntimeError("at once")

    assert train(line_with(loss=fails), PLAIN, seed=0, checkpoints=Saving(folder=tmp_path)).status == "error"
    assert train(line_with(), PLAIN, seed=0, checkpoints=Saving(folder=tmp_path)).status == "budget"


def test_a_task_that_changes_the_working_directory_moves_no_file_of_the_run(
    line_with: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    splits = line_with().splits()

    def wandering() -> Any:
        os.chdir(tmp_path / "elsewhere")
        return splits

    record = train(
        line_with(splits=wandering), PLAIN, seed=0, ledger=Path("run.jsonl"), checkpoints=Saving(folder=Path("checkpoints"))
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (tmp_path / "checkpoints" / "attempt-00000014.ckpt").exists()
    assert summarize(read(tmp_path / "run.jsonl")).counts == record.counts
    assert record.ledger == "run.jsonl"


def test_how_often_a_run_is_saved_changes_nothing_in_it(line_with: Any, tmp_path: Path) -> None:
    records = [
        train(noisy(line_with), HALF, seed=3, checkpoints=Saving(folder=tmp_path / str(every), every_attempts=every))
        for every in (1, 3, None)
    ]
    assert len({str(result(record)) for record in (*records, train(noisy(line_with), HALF, seed=3))}) == 1


def test_saves_come_at_evaluations_at_every_nth_attempt_and_at_the_end_and_the_best_stays(line_with: Any, tmp_path: Path) -> None:
    qualities = iter([3.0, 1.0, 2.0, 4.0, 5.0])
    task = line_with(quality=lambda model, dataset: next(qualities), evaluate_every=8)  # after attempts 2, 5, 7 and 10
    seen: list[set[int]] = []

    def progress(made: Any) -> None:
        seen.append({int(path.stem.partition("-")[2]) for path in tmp_path.glob("*.ckpt")})

    train(
        task, replace(PLAIN, budget_attempts=11), seed=0, checkpoints=Saving(folder=tmp_path, every_attempts=3), progress=progress
    )
    assert [max(files, default=0) for files in seen] == [0, 2, 3, 3, 5, 6, 7, 7, 9, 10, 10]
    assert {5, 9, 10} == seen[-1], "the last two, and the best: a lower quality is better here"
    kept = {read_checkpoint(path).description.counts.attempts for path in tmp_path.glob("*.ckpt")}
    assert kept == {5, 10, 11}


def test_a_model_that_is_lost_is_not_saved(line_with: Any, tmp_path: Path) -> None:
    qualities = iter([1.0, float("nan")])
    task = line_with(quality=lambda model, dataset: next(qualities))
    record = train(task, PLAIN, seed=0, checkpoints=Saving(folder=tmp_path))
    assert record.status == "diverged"
    assert [path.name for path in tmp_path.glob("*.ckpt")] == ["attempt-00000002.ckpt"]


def test_a_torn_checkpoint_is_told_and_the_one_before_it_is_gone_on_from(line_with: Any, tmp_path: Path) -> None:
    undisturbed = train(noisy(line_with), HALF, seed=3)
    saving = Saving(folder=tmp_path, every_attempts=2)
    with pytest.raises(KilledError):
        train(noisy(line_with), HALF, seed=3, checkpoints=saving, progress=killed_after(9))
    (tmp_path / "attempt-00000008.ckpt").write_bytes((tmp_path / "attempt-00000008.ckpt").read_bytes()[:-9])
    told: list[Any] = []
    record = train(noisy(line_with), HALF, seed=3, checkpoints=saving, resume=True, resumed=told.append)
    assert result(record) == result(undisturbed)
    assert [(each.attempts, [path.name for path, _ in each.refused]) for each in told] == [(6, ["attempt-00000008.ckpt"])]


# What a resume refuses.


@pytest.mark.parametrize(
    ("settings", "seed", "named"),
    [
        ({"policy": "bf16", "scale": None}, 3, "policy"),
        ({"scale": LossScale.dynamic(init=2.0**10)}, 3, "scale"),
        ({"budget_attempts": 15}, 3, "attempts"),
        ({"microbatches": 1}, 3, "microbatches"),
        ({"clock": "completed"}, 3, "clock"),
        ({}, 4, "seed"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused_by_its_first_difference(
    line_with: Any, tmp_path: Path, settings: dict[str, Any], seed: int, named: str
) -> None:
    with pytest.raises(KilledError):
        train(noisy(line_with), HALF, seed=3, checkpoints=Saving(folder=tmp_path), progress=killed_after(9))
    with pytest.raises(CheckpointError, match=named) as caught:
        train(noisy(line_with), replace(HALF, **settings), seed=seed, checkpoints=Saving(folder=tmp_path), resume=True)
    assert "part 'run'" not in str(caught.value)


def test_checkpoints_that_are_there_are_not_mixed_with_those_of_a_new_run(line_with: Any, tmp_path: Path) -> None:
    train(line_with(), PLAIN, seed=0, checkpoints=Saving(folder=tmp_path))
    with pytest.raises(CheckpointError, match="holds checkpoints already"):
        train(line_with(), PLAIN, seed=0, checkpoints=Saving(folder=tmp_path))


def test_a_resume_without_checkpoints_and_numbers_that_cannot_be_are_usage(line_with: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without its checkpoints"):
        train(line_with(), PLAIN, seed=0, resume=True)
    with pytest.raises(UsageError, match="fed by a ledger"):
        train(line_with(), PLAIN, seed=0, alarm=SkipAlarm())
    for numbers in ({"keep_last": 0}, {"every_attempts": 0}):
        with pytest.raises(UsageError, match="is 0"):
            Saving(folder=tmp_path, **numbers)


# The clocks of a run in several processes.


def test_what_a_dead_process_spent_after_its_checkpoint_is_waste() -> None:
    saved = Clocks(init=1.0, train=10.0, eval=2.0, checkpoint=0.5, waste=4.0)
    last = Clocks(init=1.0, train=13.0, eval=3.0, checkpoint=0.75, waste=4.0)
    assert resumed(saved, last) == Clocks(init=1.0, train=10.0, eval=2.0, checkpoint=0.75, waste=8.0)
    assert resumed(saved, Clocks()) == saved, "nothing is known of its end"
    assert resumed(Clocks(), last) == Clocks(checkpoint=0.75, waste=21.0), "it left no checkpoint"


def test_a_stopwatch_goes_on_from_what_was_spent_before() -> None:
    now = iter([0.0, 1.0, 3.0, 3.0])
    watch = Stopwatch(now=lambda: next(now))
    watch.turn("train")
    watch.go_on(Clocks(init=10.0, train=20.0, waste=5.0))
    assert watch.turn("eval") == "train"
    assert watch.read() == Clocks(init=11.0, train=22.0, waste=5.0)


def test_a_run_in_several_processes_adds_up_their_clocks(line_with: Any, tmp_path: Path) -> None:
    record = resumed_until_it_ends(noisy(line_with), PLAIN, tmp_path, lives=5, every=4)
    # 1 %, and a time slice of a shared processor for each of the three processes
    assert abs(record.clocks.total - record.total_seconds) <= 0.01 * record.total_seconds + 0.06
    assert min(vars(record.clocks).values()) > 0.0
    assert record.cpu_seconds > 0.0
    alone = train(noisy(line_with), PLAIN, seed=3, checkpoints=Saving(folder=tmp_path / "alone"))
    assert alone.clocks.waste == 0.0


def test_a_heartbeat_is_read_back_whatever_its_length_was_before(tmp_path: Path) -> None:
    path = tmp_path / "clocks.json"
    assert last_beat(path) == (Clocks(), 0.0)
    heartbeat, long = Heartbeat(path), Clocks(init=1 / 3, train=1e300, eval=2 / 3, checkpoint=1e-300, waste=0.1)
    for clocks in (long, Clocks(train=1.0)):
        heartbeat.beat(clocks, 1 / 7)
        assert last_beat(path) == (clocks, 1 / 7)
        assert path.stat().st_size == HEARTBEAT_BYTES
    path.write_bytes(path.read_bytes()[:20])
    assert last_beat(path) == (Clocks(), 0.0)
