"""What a task is: a model, its optimizer, its data, a loss, and the quality that a comparison races to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import TensorDataset, default_collate

from truestep.tasks.digest import digest


@dataclass(frozen=True, kw_only=True)
class Splits:
    """Three map-style datasets (`len`, and an item by its index) that share no example.

    Training data is trained on, validation data drives the race, test data is touched once, after it.
    """

    train: Any
    validation: Any
    test: Any

    def as_dict(self) -> dict[str, Any]:
        """The three by their names."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


class Task(ABC):
    """Subclass it, say the numbers, write the methods; `truestep compare FILE.py:NAME` takes it from there.

    A task file is code and is run as such: compare only what you would run. A task decides nothing about precision: it
    never calls autocast, never scales a loss, never steps. `model` and `optimizer` are built anew for each run, under
    random state that the run's seed decides, and that is the only randomness they may use. Microbatches are made on the
    CPU and moved to the device by the run.

    >>> import torch
    >>> class Line(Task):
    ...     name, batch, microbatches, updates = "line", 8, 2, 100
    ...     target, quality_name, quality_better = 0.01, "squared error", "lower"
    ...     def splits(self):
    ...         x = torch.linspace(-1, 1, 48).unsqueeze(1)
    ...         parts = [TensorDataset(x[i::3], 2 * x[i::3]) for i in range(3)]
    ...         return Splits(train=parts[0], validation=parts[1], test=parts[2])
    ...     def model(self):
    ...         return nn.Linear(1, 1)
    ...     def optimizer(self, parameters):
    ...         return torch.optim.SGD(parameters, lr=0.1)
    ...     def loss(self, model, microbatch):
    ...         return nn.functional.mse_loss(model(microbatch[0]), microbatch[1])
    ...     def quality(self, model, dataset):
    ...         return nn.functional.mse_loss(model(dataset.tensors[0]), dataset.tensors[1]).item()
    >>> Line().microbatch(TensorDataset(torch.arange(4)), torch.tensor([2, 0]))
    (tensor([2, 0]),)
    """

    name: str
    batch: int
    """Examples of an effective update."""
    microbatches: int = 1
    """Microbatches of a window, where the run does not say otherwise."""
    updates: int
    """Attempts after which a run ends, where it does not say otherwise; the schedule is laid out over them."""
    evaluate_every: int | None = None
    """Examples seen between two evaluations; None: once an epoch."""
    target: float | None = None
    """The validation quality that a run races to; None: a run goes on to the end of its budget."""
    workers: int | None = None
    """Processes that make the training microbatches, each item under random state from (seed, epoch, index), so that random
    augmentation is the same for any number, 0 included. None: the run makes them itself, under its own random state."""
    quality_name: str
    quality_better: Literal["higher", "lower"] = "higher"

    weight: Callable[[Any], Any] | None = None
    """From a microbatch to what its loss is a mean over (scored tokens, say), as a method; None: its examples."""
    examples: Callable[[Any], int] | None = None
    """From a microbatch to its number of examples; None: the first dimension of its first tensor."""
    tokens: Callable[[Any], int] | None = None
    """From a microbatch to its number of tokens; None: tokens are not counted."""

    @abstractmethod
    def splits(self) -> Splits:
        """The data; the same on every call."""

    @abstractmethod
    def model(self) -> nn.Module:
        """A new model with float32 parameters, initialised from torch's random state."""

    @abstractmethod
    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """A new optimizer of the model's parameters."""

    def scheduler(self, optimizer: Optimizer, ticks: int) -> LRScheduler | None:
        """A schedule that ends after `ticks` ticks of the run's clock; None: the learning rate stays."""
        return None

    @abstractmethod
    def loss(self, model: nn.Module, microbatch: Any) -> Tensor:
        """The mean loss of a microbatch over its weight, as a scalar in original units."""

    @abstractmethod
    def quality(self, model: nn.Module, dataset: Any) -> float:
        """The named quality of `model` on a split; called in float32, in eval mode, without gradients."""

    def microbatch(self, dataset: Any, indices: Tensor) -> Any:
        """The examples at `indices`: sliced from a TensorDataset, else collated from the items."""
        if isinstance(dataset, TensorDataset):
            return dataset[indices]
        return default_collate([dataset[index] for index in indices.tolist()])

    def digest(self) -> str:
        """SHA-256 over the data of all splits, in hexadecimal. Items that differ from call to call need their own digest."""
        return digest({split: _content(dataset) for split, dataset in self.splits().as_dict().items()})


def _content(dataset: Any) -> Any:
    """A dataset's data, an item at a time unless it is tensors already."""
    return dataset.tensors if isinstance(dataset, TensorDataset) else (dataset[index] for index in range(len(dataset)))
