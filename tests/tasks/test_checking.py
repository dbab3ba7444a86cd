"""What a task's methods return is held against what they promise, by the line of the method."""

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset, TensorDataset

from truestep.errors import TaskError
from truestep.tasks import NAMES, Digits, Splits, checking, load

FULL, EMPTY = TensorDataset(torch.zeros(2)), TensorDataset(torch.zeros(0))


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return itertools.count()


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        ((FULL, FULL, FULL), "returned a tuple"),
        (Splits(train=EMPTY, validation=FULL, test=FULL), "gave a train split without examples"),
        (Splits(train=FULL, validation=EMPTY, test=FULL), "gave a validation split without examples"),
        (Splits(train=FULL, validation=FULL, test=[]), "gave a test split without examples"),
        (Splits(train=Endless(), validation=FULL, test=FULL), r"gave a train split without a length or items \(Endless\)"),
    ],
)
def test_splits_hold_examples(splits: Any, words: str) -> None:
    with pytest.raises(TaskError, match=rf"digits\.py:\d+: Digits\.splits\(\) {words}"):
        checking.demand_splits(Digits(), splits)


def test_the_line_is_that_of_the_method() -> None:
    line = inspect.getsourcelines(Digits.model)[1]
    with pytest.raises(TaskError, match=rf"digits\.py:{line}: Digits\.model\(\) returned a str"):
        checking.demand_model(Digits(), "model")


@pytest.mark.parametrize("model", [nn.ReLU(), nn.Linear(2, 2).requires_grad_(False)])
def test_a_model_has_something_to_train(model: nn.Module) -> None:
    with pytest.raises(TaskError, match="without a parameter to train"):
        checking.demand_model(Digits(), model)


def test_an_optimizer_and_a_scheduler_are_what_they_are_called() -> None:
    with pytest.raises(TaskError, match=r"optimizer\(\) returned a NoneType"):
        checking.demand_optimizer(Digits(), None)
    with pytest.raises(TaskError, match=r"scheduler\(\) returned a function"):
        checking.demand_scheduler(Digits(), lambda tick: 1.0)


@pytest.mark.parametrize("quality", ["good", None, torch.zeros(2), [0.5]])
def test_a_quality_is_one_number(quality: Any) -> None:
    with pytest.raises(TaskError, match=r"quality\(\) returned a"):
        checking.demand_quality(Digits(), quality)


@pytest.mark.parametrize("quality", [0.5, torch.tensor(0.5), torch.tensor([0.5])])
def test_a_number_in_any_form_is_a_quality(quality: Any) -> None:
    assert checking.demand_quality(Digits(), quality) == 0.5


@pytest.mark.parametrize("name", NAMES)
def test_what_a_built_in_task_returns_passes(name: str) -> None:
    task = load(name)
    model = task.model()
    optimizer = task.optimizer(model.parameters())
    checking.demand_class(type(task))
    checking.demand_task(task)
    checking.demand_splits(task, task.splits())
    checking.demand_model(task, model)
    checking.demand_optimizer(task, optimizer)
    checking.demand_scheduler(task, task.scheduler(optimizer, 10))
    checking.demand_scheduler(task, None)


@pytest.mark.parametrize("workers", [-1, 1.5, True, "two"])
def test_workers_are_a_number_of_processes_or_none(workers: Any) -> None:
    task = Digits()
    for number in (None, 0, 2):
        task.workers = number
        checking.demand_task(task)
    task.workers = workers
    with pytest.raises(TaskError, match=r"Digits\.workers is"):
        checking.demand_task(task)
