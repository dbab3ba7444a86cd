"""Memory that does not suffice for an attempt: what is told, and what stays the same where the run goes on by itself."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests import ready
from truestep.ledger import outcomes, read, summarize
from truestep.run import Saving, Settings, train

ACCUMULATE = Settings(device="cpu", threads=1, on_oom="accumulate", budget_attempts=7)


class Limited(nn.Module):
    """Dropout, and memory for microbatches of at most `fits` examples; it draws before it fails."""

    def __init__(self, fits: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear, self.dropout, self.fits = nn.Linear(2, 1), nn.Dropout(dropout), fits

    def forward(self, x: Tensor) -> Tensor:
        noise = float(np.random.rand()) if self.training and self.dropout.p else 0.0
        out: Tensor = self.dropout(self.linear(x)) + noise
        if self.training and len(x) > self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return out


def limited(line_with: Any, fits: int, dropout: float = 0.0) -> Any:
    return line_with(model=lambda: Limited(fits, dropout), batch=8, microbatches=1)


def splits(path: Path) -> list[int]:
    return [outcome.microbatches for outcome in outcomes(path)]


def test_a_run_stops_and_says_which_accumulation_halves_the_microbatch(line_with: Any) -> None:
    record = train(limited(line_with, 3), replace(ACCUMULATE, on_oom="stop", microbatches=2), seed=0)
    assert (record.status, record.counts.attempts) == ("out of memory", 0)
    assert record.detail is not None
    assert record.detail.startswith("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (")
    assert record.hint is not None
    assert record.hint.startswith("the largest microbatch held 4 examples; accumulate=4 halves that")


def test_a_microbatch_of_one_example_cannot_be_split(line_with: Any) -> None:
    record = train(limited(line_with, 0), ACCUMULATE, seed=0)
    assert record.status == "out of memory"
    assert record.hint == "a microbatch of 1 example is too much already: make the model or its activations smaller"


def test_memory_for_anything_else_is_not_mended_by_splitting(line_with: Any) -> None:
    def quality(model: nn.Module, dataset: Any) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory")

    record = train(line_with(quality=quality), ACCUMULATE, seed=0)
    assert (record.status, record.hint) == ("out of memory", None)


def test_a_run_goes_on_with_the_window_split_twice_as_finely_until_it_fits(line_with: Any, tmp_path: Path) -> None:
    record = train(limited(line_with, 2), ACCUMULATE, seed=0, ledger=tmp_path / "run.jsonl")
    assert (record.status, record.counts.attempts, record.counts.completed) == ("budget", 7, 7)
    assert splits(tmp_path / "run.jsonl") == [4, 2, 4, 2, 4, 2, 4], "an epoch is a window of 8 examples and one of 2"
    assert record.detail == (
        "memory did not suffice for attempt 1 with accumulate=1: accumulate=2 from there on; "
        "memory did not suffice for attempt 1 with accumulate=2: accumulate=4 from there on"
    )
    assert summarize(read(tmp_path / "run.jsonl")).counts == record.counts


def test_without_randomness_every_effective_update_is_that_of_a_run_with_enough_memory(line_with: Any, tmp_path: Path) -> None:
    runs = [tmp_path / "little.jsonl", tmp_path / "enough.jsonl"]
    little, enough = (
        train(limited(line_with, fits), ACCUMULATE, seed=0, ledger=path) for fits, path in zip((2, 8), runs, strict=True)
    )
    assert little.counts == enough.counts
    for ours, theirs in zip(*map(outcomes, runs), strict=True):
        # sums of 8 float32 terms in another order, seven updates after each other: n * eps each, at 2^-24
        assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=7 * 8 * 2.0**-24)


def test_from_the_window_on_the_run_is_bit_for_bit_one_that_began_with_the_finer_split(line_with: Any) -> None:
    """The failed attempt's draws are taken back: random state, weights and place in the data are those before it."""
    record = train(limited(line_with, 4, dropout=0.5), ACCUMULATE, seed=0)
    asked = train(limited(line_with, 4, dropout=0.5), replace(ACCUMULATE, microbatches=2), seed=0)
    assert record.detail is not None
    assert asked.detail is None
    assert (record.weights_digest, record.counts) == (asked.weights_digest, asked.counts)


def test_a_resume_keeps_the_finer_split_and_its_note(line_with: Any, tmp_path: Path) -> None:
    undisturbed = train(limited(line_with, 4), ACCUMULATE, seed=0)
    saving = Saving(folder=tmp_path / "checkpoints", every_attempts=1)
    answers = iter([False, False, True])
    train(limited(line_with, 4), ACCUMULATE, seed=0, checkpoints=saving, stop=lambda: next(answers))
    ledger = tmp_path / "run.jsonl"
    record = train(limited(line_with, 4), ACCUMULATE, seed=0, checkpoints=saving, resume=True, ledger=ledger)
    assert (record.weights_digest, record.detail) == (undisturbed.weights_digest, undisturbed.detail)
    assert splits(ledger) == [2, 2, 2, 2]


# A process whose address space is limited: the machine's own refusal, in torch's words.
REAL = """
import resource
import torch
from torch import nn
from torch.utils.data import TensorDataset
from truestep.run import Settings, train
from truestep.tasks import Logistic, Splits

class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1)

    def forward(self, x):
        if self.training:
            torch.empty(len(x) * 2**28, dtype=torch.uint8)  # 256 MiB an example, never touched
        return self.linear(x)

class Real(Logistic):
    batch, microbatches, updates = 32, 1, 3

    def model(self):
        return Large()

train(Real(), Settings(device="cpu", threads=1, budget_attempts=1, microbatches=32), seed=0)  # whatever is mapped once is there
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 3 * 2**30, resource.RLIM_INFINITY))  # room for 12 examples, not for 16
record = train(Real(), Settings(device="cpu", threads=1, on_oom="accumulate"), seed=0)
print(record.status, record.counts.completed, record.detail)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell how much is mapped")
def test_a_real_lack_of_memory_is_survived() -> None:
    ended = ready.run("-c", REAL)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(
        "budget 3 memory did not suffice for attempt 1 with accumulate=1: accumulate=2 from there on; "
    )
    assert ended.stdout.rstrip().endswith("with accumulate=2: accumulate=4 from there on")
