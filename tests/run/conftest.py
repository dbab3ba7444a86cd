"""A small task whose every part can be replaced."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import TensorDataset

from truestep.tasks import Splits, Task


class Line(Task):
    """y = x @ [1, -2] by least squares; 10 training examples: windows of 4, 4 and 2."""

    name = "line"
    batch = 4
    microbatches = 2
    updates = 9
    evaluate_every = 8
    target: float | None = None
    quality_name = "squared error"
    quality_better: Literal["higher", "lower"] = "lower"

    def splits(self) -> Splits:
        x = torch.linspace(-1, 1, 40).reshape(20, 2)
        y = x @ torch.tensor([[1.0], [-2.0]])
        parts = [
            TensorDataset(x[part], y[part]) for part in torch.split(torch.randperm(20, generator=torch.Generator()), [10, 5, 5])
        ]
        return Splits(train=parts[0], validation=parts[1], test=parts[2])

    def model(self) -> nn.Module:
        return nn.Linear(2, 1)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        return torch.optim.SGD(parameters, lr=0.1)

    def loss(self, model: nn.Module, microbatch: Any) -> Tensor:
        return nn.functional.mse_loss(model(microbatch[0]), microbatch[1])

    def quality(self, model: nn.Module, dataset: Any) -> float:
        device = next(model.parameters()).device
        return nn.functional.mse_loss(model(dataset.tensors[0].to(device)).cpu(), dataset.tensors[1]).item()


@pytest.fixture
def line() -> type[Line]:
    """The task's class, to be derived from."""
    return Line


@pytest.fixture
def line_with() -> Callable[..., Line]:
    """The task with attributes or methods replaced; methods take what they take, without self."""

    def build(**parts: Any) -> Line:
        task = Line()
        for name, part in parts.items():
            setattr(task, name, part)
        return task

    return build
