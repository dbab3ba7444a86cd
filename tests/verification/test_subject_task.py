"""The windows of a task, and the full batch that belongs to each."""

import multiprocessing

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from truestep.run.beginning import beginning_of
from truestep.tasks import Splits, Task
from truestep.verification.subject_task import full_batches
from truestep.verification.verify import verify


class Line(Task):
    """Ten training examples of y = x @ [1, -2]: windows of 4, 4 and 2."""

    name, batch, microbatches, updates = "line", 4, 2, 3
    target, quality_name, quality_better = 0.01, "squared error", "lower"

    def splits(self):
        x = torch.linspace(-1, 1, 40).reshape(20, 2)
        y = x @ torch.tensor([[1.0], [-2.0]])
        parts = [TensorDataset(x[part], y[part]) for part in torch.arange(20).split([10, 5, 5])]
        return Splits(train=parts[0], validation=parts[1], test=parts[2])

    def model(self):
        return nn.Linear(2, 1)

    def optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=0.1)

    def loss(self, model, microbatch):
        return nn.functional.mse_loss(model(microbatch[0]), microbatch[1])

    def quality(self, model, dataset):
        return 0.0


class Jittered(Line):
    """Moves its examples at random as it takes them."""

    def microbatch(self, dataset, indices):
        x, y = dataset[indices]
        return x + torch.randn_like(x), y


class Privately(Line):
    """The same, from a generator that is its own."""

    def __init__(self):
        self.generator = torch.Generator()

    def microbatch(self, dataset, indices):
        x, y = dataset[indices]
        return x + torch.randn(x.shape, generator=self.generator), y


class Padded(Line):
    """As wide as its widest example."""

    def microbatch(self, dataset, indices):
        x, y = dataset[indices]
        return nn.functional.pad(x, (0, int(indices.max()))), y

    def loss(self, model, microbatch):
        return nn.functional.mse_loss(model(microbatch[0][:, :2]), microbatch[1])


class Failing(Line):
    """Read by a process of its own, and fails in its loss."""

    workers = 1

    def loss(self, model, microbatch):
        raise ArithmeticError


def fulls(task, attempts=3):
    options = {"microbatches": None, "seed": 0, "device": torch.device("cpu"), "scale": None, "allow_underflow": False}
    return list(full_batches(task, beginning_of(task, "fp32", **options), seed=0, attempts=attempts))


@pytest.mark.parametrize("task", [Line, Jittered, Privately])
def test_the_full_batch_holds_what_its_window_holds_also_where_that_is_drawn_at_random(task):
    for full in fulls(task()):
        assert torch.equal(full.joined[0], torch.cat([x for x, _ in full.window]))
    result = verify(task(), policy="fp32", attempts=2)
    assert result.passed, result


def test_what_a_task_pads_by_itself_it_puts_together_by_itself():
    full = fulls(Padded(), attempts=1)[0]
    widths = [x.shape[1] for x, _ in full.window]
    assert len(set(widths)) == 2
    assert full.joined[0].shape == (4, max(widths))


def test_a_window_tells_that_its_epoch_ends():
    assert [full.window.ends_epoch for full in fulls(Line())] == [False, False, True]


def test_the_processes_that_read_end_with_an_attempt_that_raises():
    with pytest.raises(Exception, match="ArithmeticError") as raised:
        verify(Failing(), policy="fp32")
    assert raised is not None
    assert not multiprocessing.active_children()
