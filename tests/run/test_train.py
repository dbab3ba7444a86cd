"""A run takes its data in order, makes its attempts, watches its quality, and leaves a record whatever happens."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import TensorDataset

from truestep import ClipNorm, Every, LossScale
from truestep.errors import LedgerError, TaskError, UsageError
from truestep.ledger import outcomes, read, summarize
from truestep.run import Settings, initial_digest, train
from truestep.run.clocks import Stopwatch
from truestep.run.sampling import order
from truestep.tasks import Splits

CPU = Settings(device="cpu")


def traced(task: Any) -> list[Any]:
    """Makes `task` write down what is asked of it, in order: microbatches by their indices, losses, evaluations by split."""
    trace: list[Any] = []
    microbatch, loss, quality, splits = task.microbatch, task.loss, task.quality, task.splits()
    names = {id(dataset): name for name, dataset in splits.as_dict().items()}

    def write_microbatch(dataset: Any, indices: Tensor) -> Any:
        trace.append((names[id(dataset)], indices.tolist()))
        return microbatch(dataset, indices)

    def write_loss(model: nn.Module, batch: Any) -> Tensor:
        trace.append("loss")
        result: Tensor = loss(model, batch)
        return result

    def write_quality(model: nn.Module, dataset: Any) -> float:
        trace.append(f"quality on {names[id(dataset)]}")
        result: float = quality(model, dataset)
        return result

    task.microbatch, task.loss, task.quality, task.splits = write_microbatch, write_loss, write_quality, lambda: splits
    return trace


def test_an_epoch_ends_in_a_short_window_evaluation_goes_by_examples_and_test_comes_last(line_with: Any) -> None:
    task = line_with()
    trace = traced(task)
    train(task, replace(CPU, budget_attempts=4), seed=5)
    first, second = order(10, seed=5, epoch=0).tolist(), order(10, seed=5, epoch=1).tolist()
    assert trace == [
        ("train", first[0:2]),
        ("train", first[2:4]),
        "loss",
        "loss",
        ("train", first[4:6]),
        ("train", first[6:8]),
        "loss",
        "loss",
        "quality on validation",
        ("train", first[8:9]),
        ("train", first[9:10]),
        "loss",
        "loss",
        ("train", second[0:2]),
        ("train", second[2:4]),
        "loss",
        "loss",
        "quality on test",
    ]


def test_every_second_is_charged_to_what_it_is_spent_on(line_with: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    task = line_with()
    trace = traced(task)
    turn = Stopwatch.turn

    def write_turn(watch: Stopwatch, dial: Any) -> None:
        trace.append(f"turn {dial}")
        turn(watch, dial)

    monkeypatch.setattr(Stopwatch, "turn", write_turn)
    train(task, replace(CPU, budget_attempts=3), seed=0)
    assert [event for event in trace if isinstance(event, str)] == [
        "turn train",
        *["loss"] * 4,
        "turn eval",
        "quality on validation",
        "turn train",
        *["loss"] * 2,
        "turn eval",
        "quality on test",
        "turn eval",  # the last reading waits for the device
    ]


def test_a_short_window_is_divided_by_its_own_total(line_with: Any, tmp_path: Path) -> None:
    train(line_with(), replace(CPU, budget_attempts=6), seed=0, ledger=tmp_path / "run.jsonl")
    assert [outcome.weight for outcome in outcomes(tmp_path / "run.jsonl")] == [4.0, 4.0, 2.0, 4.0, 4.0, 2.0]


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("microbatches", [1, 2, 3, 4])
def test_every_candidate_sees_the_same_data_from_the_same_weights(line_with: Any, policy: str, microbatches: int) -> None:
    task = line_with()
    trace = traced(task)
    record = train(task, replace(CPU, policy=policy, microbatches=microbatches, budget_attempts=6), seed=5)
    seen = [index for event in trace if event[0] == "train" for index in event[1]]
    assert seen == [*order(10, seed=5, epoch=0).tolist(), *order(10, seed=5, epoch=1).tolist()]
    assert record.initial_digest == initial_digest(line_with(), seed=5)
    assert [place.examples for place in record.evaluations] == [8, 18]


class Drawing(nn.Module):
    """A linear layer behind dropout, and a draw of numpy's: randomness in training."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(2, 1), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        noise = float(np.random.rand()) + random.random() if self.training else 0.0
        out: Tensor = self.linear(self.dropout(x)) + noise
        return out


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
def test_two_runs_with_one_seed_are_equal(line_with: Any, policy: str) -> None:
    def run(seed: int) -> Any:
        record = train(line_with(model=Drawing), replace(CPU, policy=policy), seed=seed)
        return (
            record.counts,
            record.weights_digest,
            record.initial_digest,
            record.test_quality,
            [(place.examples, place.quality) for place in record.evaluations],
        )

    first = run(3)
    torch.rand(5)
    assert run(3) == first
    assert run(4)[1:3] != first[1:3]


def test_how_often_is_evaluated_changes_nothing_in_training(line_with: Any) -> None:
    def quality(model: nn.Module, dataset: Any) -> float:
        return float(torch.rand(1)) + float(np.random.rand()) + random.random()

    records = [
        train(line_with(model=Drawing, quality=quality), replace(CPU, evaluate_every=every), seed=1) for every in (4, 1000)
    ]
    assert [len(record.evaluations) for record in records] == [7, 0]
    assert records[0].weights_digest == records[1].weights_digest


def test_the_surroundings_are_as_before(line_with: Any) -> None:
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate(), torch.get_num_threads()  # type: ignore[index]
    train(line_with(model=Drawing), replace(CPU, threads=2), seed=0)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1].tolist(), random.getstate(), torch.get_num_threads()) == states[1:]  # type: ignore[index]


def test_counts_in_the_record_are_those_in_the_ledger(line_with: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    task = line_with(tokens=lambda microbatch: 10 * len(microbatch[0]))
    record = train(task, replace(CPU, policy="fp16", candidate="half"), seed=2, ledger=path, protocol_hash="ab")
    summary = summarize(read(path))
    assert summary.counts == record.counts
    assert (record.counts.attempts, record.counts.examples_seen, record.counts.tokens_seen) == (9, 30, 300)
    assert (record.ledger, record.candidate, record.protocol_hash) == (str(path), "half", "ab")
    header = next(read(path))
    assert (header["policy"], header["run_id"], header["protocol_hash"]) == ("fp16", "half seed 2", "ab")
    assert header["environment"] == record.environment


@pytest.mark.parametrize(
    ("clock", "ticks"), [("completed", 7), ("attempt", 7), ("epoch", 2), (Every(examples=8), 3), (Every(examples=3), 8)]
)
def test_the_schedule_ticks_by_its_clock(line_with: Any, clock: Any, ticks: int) -> None:
    def scheduler(optimizer: Any, length: int) -> Any:
        return LambdaLR(optimizer, lambda tick: 1.0)

    # 7 attempts are 2 epochs of 10 examples and a window of 4
    record = train(line_with(scheduler=scheduler), replace(CPU, clock=clock, budget_attempts=7), seed=0)
    assert (record.counts.completed, record.counts.ticks) == (7, ticks)


def test_clip_and_scale_reach_the_update(line_with: Any, tmp_path: Path) -> None:
    settings = replace(CPU, policy="fp16", scale=LossScale.static(32.0), clip=ClipNorm(1e-3), budget_attempts=3)
    train(line_with(), settings, seed=0, ledger=tmp_path / "run.jsonl")
    for outcome in outcomes(tmp_path / "run.jsonl"):
        assert (outcome.loss_scale, outcome.grad_norm_clipped) == (32.0, 1e-3)


def test_the_clocks_add_up_to_the_total(line_with: Any) -> None:
    record = train(line_with(), replace(CPU, budget_attempts=150), seed=0)
    # 1 %, and one time slice of a shared processor between the last dial and the last look at the wall.
    assert abs(record.clocks.total - record.total_seconds) <= 0.01 * record.total_seconds + 0.02
    assert min(record.clocks.init, record.clocks.train, record.clocks.eval) > 0.0
    assert record.clocks.checkpoint == record.clocks.waste == 0.0
    assert record.cpu_seconds > 0.0


def test_the_data_of_a_run_are_loaded_once_and_their_digest_is_in_its_record(line_with: Any) -> None:
    calls: list[float] = []
    task = line_with()
    whole = task.splits

    def splits() -> Splits:
        calls.append(float(len(calls)))
        first = whole()
        drawn = TensorDataset(first.train.tensors[0] + calls[-1], first.train.tensors[1])
        return Splits(train=drawn, validation=first.validation, test=first.test)

    records = [train(line_with(splits=splits), replace(CPU, budget_attempts=1), seed=0) for _ in range(2)]
    assert calls == [0.0, 1.0]
    assert records[0].data_digest == task.digest()
    assert records[1].data_digest != task.digest()


# How a run ends.


def test_a_run_ends_at_the_first_evaluation_that_meets_its_target(line_with: Any) -> None:
    qualities = iter([3.0, 2.0, 0.9, 0.1])
    task = line_with(target=1.0, updates=100, quality=lambda model, dataset: next(qualities))
    record = train(task, CPU, seed=0)
    assert record.status == "reached"
    assert record.detail is None
    assert record.to_target is not None
    assert (record.to_target.examples, record.to_target.attempts, record.to_target.completed) == (24, 7, 7)
    assert record.to_target.seconds == record.evaluations[-1].train_seconds > 0.0
    assert record.counts.attempts == 7
    assert record.test_quality == 0.1


def test_a_run_that_need_not_stop_at_its_target_notes_it_and_goes_on(line_with: Any) -> None:
    qualities = iter([3.0, 0.9, 5.0, 0.2])
    task = line_with(target=1.0, quality=lambda model, dataset: next(qualities))
    record = train(task, replace(CPU, stop_at_target=False), seed=0)
    assert (record.status, record.counts.attempts, record.test_quality) == ("reached", 9, 0.2)
    assert record.to_target is not None
    assert record.to_target.examples == 18


def test_a_target_that_is_never_met_uses_up_the_budget(line_with: Any) -> None:
    record = train(line_with(target=-1.0), CPU, seed=0)
    assert (record.status, record.detail, record.to_target, record.counts.attempts) == ("budget", None, None, 9)
    assert record.test_quality is not None


def test_attempts_bound_a_run_skipped_ones_included(line_with: Any) -> None:
    record = train(line_with(weight=lambda microbatch: 0.0), replace(CPU, budget_attempts=5), seed=0)
    assert (record.status, record.counts.attempts, record.counts.completed) == ("budget", 5, 0)


def test_seconds_bound_a_run_and_a_target_met_after_them_is_not_reached(line_with: Any) -> None:
    # any attempt takes longer than a nanosecond, so the run is over after its first
    task = line_with(target=1e9, evaluate_every=1)
    record = train(task, replace(CPU, budget_seconds=1e-9), seed=0)
    assert (record.status, record.counts.attempts, record.to_target) == ("budget", 1, None)
    assert len(record.evaluations) == 1


def test_evaluations_are_placed_by_examples_seen_whatever_was_skipped(line_with: Any) -> None:
    skipped = train(line_with(weight=lambda microbatch: 0.0), CPU, seed=0)
    applied = train(line_with(), CPU, seed=0)
    places = [place.examples for place in applied.evaluations]
    assert places == [place.examples for place in skipped.evaluations] == [8, 18, 24]
    assert [place.completed for place in skipped.evaluations] == [0, 0, 0]


def test_a_loss_that_becomes_nan_is_a_divergence_and_every_attempt_is_kept(line_with: Any, tmp_path: Path) -> None:
    calls = 0

    def loss(model: nn.Module, microbatch: Any) -> Tensor:
        nonlocal calls
        calls += 1
        good = nn.functional.mse_loss(model(microbatch[0]), microbatch[1])
        return good if calls <= 4 else good * float("nan")

    path = tmp_path / "run.jsonl"
    record = train(line_with(loss=loss, updates=50), replace(CPU, max_consecutive_skips=3), seed=0, ledger=path)
    assert record.status == "diverged"
    assert record.detail is not None
    assert "non-finite loss" in record.detail
    assert (record.counts.attempts, record.counts.completed, record.counts.skipped) == (5, 2, 3)
    assert summarize(read(path)).counts == record.counts
    assert record.test_quality is None


def test_a_learning_rate_beyond_all_bounds_is_a_divergence(line_with: Any) -> None:
    task = line_with(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e30), updates=100)
    record = train(task, replace(CPU, max_consecutive_skips=3), seed=0)
    assert record.status == "diverged"


@pytest.mark.parametrize("quality", [float("nan"), float("inf")])
def test_a_quality_that_is_not_finite_is_a_divergence(line_with: Any, quality: float) -> None:
    record = train(line_with(quality=lambda model, dataset: quality, target=0.0, quality_better="higher"), CPU, seed=0)
    assert (record.status, record.counts.attempts, record.to_target) == ("diverged", 2, None)
    assert repr(record.evaluations[-1].quality) == repr(quality)


def test_a_weight_that_is_not_finite_is_a_divergence_even_if_the_quality_does_not_see_it(line_with: Any) -> None:
    def model() -> nn.Module:
        built = nn.Linear(2, 1)
        built.register_parameter("unused", nn.Parameter(torch.tensor(float("inf"))))
        return built

    record = train(line_with(model=model), CPU, seed=0)
    assert (record.status, record.counts.completed) == ("diverged", 2)


def test_input_that_is_not_finite_stalls_a_run(line_with: Any) -> None:
    def splits() -> Splits:
        bad = TensorDataset(torch.full((10, 2), float("nan")), torch.zeros(10, 1))
        return Splits(train=bad, validation=bad, test=bad)

    record = train(line_with(splits=splits), replace(CPU, max_consecutive_skips=1), seed=0)
    assert record.status == "stalled"
    assert record.detail is not None
    assert "non-finite input" in record.detail


def test_a_forward_that_only_a_narrow_format_overflows_stalls_there_and_trains_in_float32(line_with: Any) -> None:
    def loss(model: nn.Module, microbatch: Any) -> Tensor:
        # 2^17 lies beyond float16's 65504, and 1 within all formats
        return nn.functional.mse_loss(model(microbatch[0] + 2.0**17) * 2.0**-40, microbatch[1])

    task = line_with(loss=loss, model=lambda: ones(nn.Linear(2, 1)))
    settings = replace(CPU, max_consecutive_skips=3)
    assert train(task, replace(settings, policy="fp16"), seed=0).status == "stalled"
    assert train(task, settings, seed=0).counts.skipped == 0


def ones(model: nn.Linear) -> nn.Linear:
    nn.init.ones_(model.weight)
    return model


PARTS = ["splits", "model", "optimizer", "scheduler", "microbatch", "loss", "quality"]


def failing(line: type[Any], part: str, error: BaseException) -> Any:
    """The task with a method, defined in this file, that raises."""

    def method(self: Any, *values: Any) -> Any:
        raise error

    return type("Failing", (line,), {part: method, "__module__": __name__})()


@pytest.mark.parametrize("part", PARTS)
def test_an_exception_of_the_task_is_an_error_with_its_last_frame(line: type[Any], part: str) -> None:
    record = train(failing(line, part, KeyError("no such pixel")), CPU, seed=0)
    assert record.status == "error"
    assert record.detail is not None
    assert record.detail.startswith("KeyError: 'no such pixel' (")
    assert record.detail.endswith(" in method)")
    assert __file__ in record.detail
    built = part not in ("splits", "model", "optimizer", "scheduler")
    assert (record.weights_digest is not None) == (record.initial_digest is not None) == built
    assert record.test_quality is None


def test_an_exception_in_the_middle_keeps_what_was_done(line_with: Any, tmp_path: Path) -> None:
    calls = iter(range(100))

    def quality(model: nn.Module, dataset: Any) -> float:
        if next(calls) == 1:
            raise RuntimeError("the second time")
        return 1.0

    path = tmp_path / "run.jsonl"
    record = train(line_with(quality=quality), CPU, seed=0, ledger=path)
    assert (record.status, record.counts.attempts, len(record.evaluations)) == ("error", 5, 1)
    assert summarize(read(path)).counts == record.counts


@pytest.mark.parametrize("part", PARTS)
def test_a_task_that_asks_the_process_to_end_ends_its_run(line: type[Any], part: str) -> None:
    record = train(failing(line, part, SystemExit(4)), CPU, seed=0)
    assert record.status == "error"
    assert record.detail is not None
    assert record.detail.startswith("SystemExit: 4 (")


class Padded(nn.Module):
    """Scores for ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.linear(x)
        return scores


def test_a_padded_loss_without_a_weight_is_refused_with_the_method_to_write(line_with: Any) -> None:
    def loss(model: nn.Module, microbatch: Any) -> Tensor:
        scores = model(microbatch[0])
        labels = torch.zeros(len(scores), dtype=torch.int64)
        labels[0] = -100
        return nn.functional.cross_entropy(scores, labels, ignore_index=-100)

    record = train(line_with(model=Padded, loss=loss, microbatches=1), CPU, seed=0)
    assert record.status == "error"
    assert record.detail is not None
    assert record.detail.startswith("WeightError: the declared weight is 4, and the loss is a mean over 3 (")
    assert "weight_check.py" not in record.detail
    assert record.hint is not None
    assert record.hint.startswith("define weight(self, microbatch) in the task")
    assert "Update(" not in record.hint
    # with a weight that is wrong, the engine's own advice is left as it is
    record = train(line_with(model=Padded, loss=loss, microbatches=1, weight=lambda part: 2.0), CPU, seed=0)
    assert record.hint is not None
    assert "define weight" not in record.hint


@pytest.mark.parametrize("part", ["model", "loss", "quality"])
def test_memory_that_runs_out_is_a_status_of_its_own(line: type[Any], part: str) -> None:
    record = train(failing(line, part, torch.OutOfMemoryError("CUDA out of memory")), CPU, seed=0)
    assert record.status == "out of memory"


def test_a_loss_that_the_engine_refuses_is_an_error(line_with: Any) -> None:
    record = train(line_with(loss=lambda model, microbatch: model(microbatch[0])), CPU, seed=0)
    assert record.status == "error"
    assert record.detail is not None
    assert record.detail.startswith("LossError: ")


@pytest.mark.parametrize("part", PARTS)
def test_ctrl_c_passes_through_and_leaves_the_surroundings_as_before(line: type[Any], part: str) -> None:
    states = torch.get_rng_state(), torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt):
        train(failing(line, part, KeyboardInterrupt()), replace(CPU, threads=2), seed=0)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.get_num_threads() == states[1]


def test_a_failure_of_the_callers_own_passes_through(line_with: Any, tmp_path: Path) -> None:
    def broken(*values: Any) -> Any:
        raise BrokenPipeError

    path = tmp_path / "run.jsonl"
    for settings in ({"progress": broken, "ledger": path}, {"stop": broken}):
        with pytest.raises(BrokenPipeError):
            train(line_with(), CPU, seed=0, **settings)  # type: ignore[arg-type]
    assert len(list(outcomes(path))) == 1


def test_a_ledger_that_cannot_be_written_is_nobodys_failure(line_with: Any, tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text("precious")
    with pytest.raises(LedgerError, match="exists"):
        train(line_with(), CPU, seed=0, ledger=tmp_path / "run.jsonl")


@pytest.mark.parametrize(
    ("parts", "settings", "words"),
    [
        ({}, {"policy": "fp15"}, "fp15"),
        ({}, {"policy": "fp16", "scale": LossScale.none()}, "underflow|becomes? zero|become zero"),
        ({}, {"clock": "lunch"}, "lunch"),
        ({}, {"microbatches": 5}, "5 microbatches do not fit"),
        ({}, {"device": "cuda:99"}, "cuda:99 is not there"),
        ({"batch": 0}, {}, "batch is 0"),
        ({"model": nn.ReLU}, {}, "without a parameter to train"),
        ({"optimizer": lambda parameters: None}, {}, "returned a NoneType"),
        ({"splits": lambda: None}, {}, "returned a NoneType"),
    ],
)
def test_what_cannot_be_run_at_all_is_refused_before_a_ledger_is_begun(
    line_with: Any, tmp_path: Path, parts: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(UsageError, match=words):
        train(line_with(**parts), replace(CPU, **settings), seed=0, ledger=path)
    assert not path.exists()


def test_a_task_that_shows_its_fault_during_the_run_has_a_record(line_with: Any) -> None:
    record = train(line_with(quality=lambda model, dataset: "good"), CPU, seed=0)
    assert record.status == "error"
    assert record.detail is not None
    assert record.detail.startswith(TaskError.__name__)


# What the caller hears on the way.


def test_progress_comes_after_every_attempt_with_the_last_quality(line_with: Any) -> None:
    heard: list[Any] = []
    qualities = iter([3.0, 2.0, 1.0, 0.5])
    task = line_with(quality=lambda model, dataset: next(qualities), target=0.0)
    train(task, replace(CPU, candidate="mine"), seed=4, progress=heard.append)
    assert [each.counts.attempts for each in heard] == list(range(1, 10))
    assert [each.quality for each in heard] == [None, 3.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0, 1.0]
    assert {(each.candidate, each.seed, each.budget_attempts, each.target) for each in heard} == {("mine", 4, 9, 0.0)}
    seconds = [each.seconds for each in heard]
    assert seconds == sorted(seconds)


@pytest.fixture
def after() -> Callable[[int], Callable[[], bool]]:
    """A stop that says yes when it is asked for the n-th time."""

    def build(asked: int) -> Callable[[], bool]:
        answers = iter([False] * (asked - 1) + [True])
        return lambda: next(answers)

    return build


def test_a_run_that_is_told_to_stop_has_a_record_and_touches_no_test_data(line_with: Any, after: Any) -> None:
    task = line_with()
    trace = traced(task)
    record = train(task, CPU, seed=0, stop=after(3))
    assert (record.status, record.counts.attempts, record.test_quality) == ("stopped", 3, None)
    assert "quality on test" not in trace


def test_a_run_that_has_reached_its_target_is_not_asked_whether_to_stop(line_with: Any, after: Any) -> None:
    record = train(line_with(target=1e9), CPU, seed=0, stop=after(2))
    assert (record.status, record.counts.attempts) == ("reached", 2)
    assert record.test_quality is not None


def test_emulation_and_device_are_told(line_with: Any) -> None:
    record = train(line_with(), replace(CPU, policy="fp32"), seed=0)
    assert (record.device, record.emulated) == ("cpu", False)
    assert record.environment["device"] == "cpu"
