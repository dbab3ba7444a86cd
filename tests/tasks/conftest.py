"""Task files to load."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

GOOD = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from truestep.tasks import Splits, Task


class Line(Task):
    name, batch, microbatches, updates = "line", 4, 2, 10
    quality_name, quality_better = "squared error", "lower"

    def splits(self):
        x = torch.arange(12.0).reshape(12, 1)
        return Splits(**{name: TensorDataset(x[i::3], 2 * x[i::3]) for i, name in enumerate(["train", "validation", "test"])})

    def model(self):
        return nn.Linear(1, 1)

    def optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=0.01)

    def loss(self, model, microbatch):
        return nn.functional.mse_loss(model(microbatch[0]), microbatch[1])

    def quality(self, model, dataset):
        return nn.functional.mse_loss(model(dataset.tensors[0]), dataset.tensors[1]).item()
"""


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[..., str]:
    """Write a task file, the good one with `extra` behind it unless `source` is given; returns its path."""

    def written(extra: str = "", *, source: str | None = None) -> str:
        path = tmp_path / "mine.py"
        path.write_text(GOOD + textwrap.dedent(extra) if source is None else textwrap.dedent(source))
        return str(path)

    return written
