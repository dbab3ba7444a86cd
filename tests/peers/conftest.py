"""A model that can be given any gradient, its loss, and updates of it: the same input for a peer and for truestep."""

import pytest
import torch
from torch import nn

import truestep


class Line(nn.Module):
    """A weight of zeros. Under `slope` its gradient is the microbatch itself, and SGD at rate 1 moves it by minus that."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def reached(self):
        """The gradient that an SGD of rate 1 was given, summed over its steps."""
        return -self.weight.detach()


def _slope(model, microbatch):
    return (model.weight * microbatch).sum()


def _update(model, optimizer=None, **options):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=1.0)
    return truestep.Update(model, optimizer, **{"loss": _slope, "loss_is": "share", "policy": "fp16"} | options)


@pytest.fixture
def line():
    """Builds a model: line(size)."""
    return Line


@pytest.fixture
def slope():
    """The loss: slope(model, microbatch)."""
    return _slope


@pytest.fixture
def make_update():
    """Builds an Update of a model: its window's gradient is the sum of the microbatches, its loss scale starts at 65536."""
    return _update
