"""What a run is built of depends on task, settings and seed, and what cannot be built is refused."""

import random
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from truestep import LossScale
from truestep.errors import SkipLimitError, UsageError
from truestep.run import Settings, initial_digest
from truestep.run.building import build, data_digest, device_of, moved, weights_digest
from truestep.run.isolation import seed_all
from truestep.tasks import Splits

CPU = torch.device("cpu")


def test_initial_weights_come_from_the_seed_alone(line_with: Any) -> None:
    task = line_with()
    digests = [initial_digest(task, seed=seed) for seed in (0, 1, 0)]
    assert digests[0] == digests[2] != digests[1]
    for settings in (Settings(), Settings(policy="fp16", microbatches=4, threads=2)):
        setup = build(task, settings, seed=1, device=CPU)
        assert setup.initial_digest == weights_digest(setup.model) == digests[1]


def test_asking_for_the_initial_weights_leaves_the_random_state_alone(line_with: Any) -> None:
    before = torch.get_rng_state()
    initial_digest(line_with(), seed=0)
    assert torch.equal(before, torch.get_rng_state())


def test_a_digest_tells_a_single_changed_bit_and_a_changed_buffer() -> None:
    model = nn.BatchNorm1d(2)
    before = weights_digest(model)
    assert weights_digest(model) == before
    with torch.no_grad():
        model.weight[0] = torch.nextafter(model.weight[0], torch.tensor(2.0))
    changed = weights_digest(model)
    assert changed != before
    assert model.running_mean is not None
    model.running_mean[0] = 1.0
    assert weights_digest(model) != changed


def test_the_update_is_what_task_and_settings_say(line_with: Any) -> None:
    counted = {"tokens": lambda batch: 7, "examples": lambda batch: 5, "weight": lambda batch: float(len(batch[0]))}
    settings = Settings(policy="fp16", scale=LossScale.static(8.0), max_consecutive_skips=2)
    setup = build(line_with(**counted), settings, seed=0, device=CPU)
    outcome = setup.update([setup.splits.train[:3], setup.splits.train[3:4]])
    assert (outcome.policy, outcome.loss_scale) == ("fp16", 8.0)
    assert (outcome.tokens, outcome.examples, outcome.weight) == (14, 10, 4.0)
    nowhere = [torch.full((1, 2), float("nan")), torch.zeros(1, 1)]
    assert setup.update([nowhere]).skip is not None
    with pytest.raises(SkipLimitError):
        setup.update([nowhere])


def test_the_schedule_gets_the_length_of_the_budget(line_with: Any) -> None:
    asked = []

    def scheduler(optimizer: Any, ticks: int) -> None:
        asked.append(ticks)

    build(line_with(scheduler=scheduler), Settings(budget_attempts=6, clock="epoch"), seed=0, device=CPU)
    assert asked == [2]


def test_a_device_that_is_not_there_is_refused_and_not_replaced() -> None:
    assert device_of("cpu") == CPU
    for asked in ("cuda:99", "meta", "gpu"):
        with pytest.raises(UsageError, match=asked):
            device_of(asked)


class Pair(NamedTuple):
    first: Tensor
    second: Any


def test_a_microbatch_moves_with_its_shape() -> None:
    meta = torch.device("meta")  # the one other device that every machine has
    there = moved({"x": [torch.zeros(1), (torch.zeros(1), "word")], "pair": Pair(torch.zeros(1), None)}, meta)
    assert there["x"][0].device == there["x"][1][0].device == there["pair"].first.device == meta
    assert (type(there["x"]), type(there["x"][1]), there["x"][1][1], type(there["pair"])) == (list, tuple, "word", Pair)


def test_a_microbatch_for_the_cpu_is_left_alone() -> None:
    microbatch = [torch.zeros(1)]
    assert moved(microbatch, CPU) is microbatch


def test_data_augmented_at_random_have_one_digest_and_taking_it_leaves_the_random_state_alone(line_with: Any) -> None:
    class Shaken(Dataset[tuple[Tensor, Tensor]]):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            drawn = [random.random(), float(np.random.rand()), float(torch.rand(()))]
            return torch.tensor(drawn), torch.zeros(1)

    task, splits = line_with(), Splits(train=Shaken(), validation=Shaken(), test=Shaken())
    digests, after = [], []
    for number in (1, 2):  # two processes, which have drawn other numbers before
        seed_all(number, torch.device("cpu"))
        digests.append(data_digest(task, splits))
        seed_all(3, torch.device("cpu"))
        data_digest(task, splits)
        after.append((random.random(), np.random.rand(), torch.rand(()).item()))
    seed_all(3, torch.device("cpu"))
    assert digests[0] == digests[1]
    assert after == [(random.random(), np.random.rand(), torch.rand(()).item())] * 2
