"""Reads microbatches through torch's DataLoader, so that what is drawn at random follows from (seed, epoch, index) alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from truestep.engine.randomness import own_random_state
from truestep.run.isolation import seed_all
from truestep.run.sampling import derived

M = TypeVar("M")
Key = tuple[int, Tensor]
"""An epoch, and the indices of a microbatch in it."""

_CPU = torch.device("cpu")


def read(
    keys: Iterable[Key], make: Callable[[Any, Tensor], M], dataset: Any, *, seed: int, workers: int, **options: Any
) -> Iterator[M]:
    """The microbatches of `keys`, each made by `make(dataset, indices)` in one of `workers` processes, or here where 0.

    An item is read under random state seeded from (seed, epoch, index), and what `make` itself draws follows the last item it
    read: the same for any number of workers. This process's random state is not moved. Torch's on the CPU, NumPy's and
    Python's global generators are meant; a generator of the dataset's own, or one that asks the system, is not.

    Args:
        options: for the DataLoader: pin_memory, prefetch_factor, timeout, multiprocessing_context.
    """
    seeded: Any = _Seeded(make, dataset, seed)
    apart = {"worker_init_fn": _stand_apart} if workers else {}
    loader: Any = DataLoader(
        seeded,
        batch_size=None,  # a key is a whole microbatch
        sampler=keys,
        collate_fn=_unchanged,
        num_workers=workers,
        generator=torch.Generator(),  # without one, making the iterator draws from the run's own
        **apart | options,
    )
    return iter(loader)


class _Seeded:
    """What the DataLoader reads: a microbatch for each key."""

    def __init__(self, make: Callable[[Any, Tensor], Any], dataset: Any, seed: int) -> None:
        self._make, self._dataset, self._seed = make, dataset, seed

    def __getitem__(self, key: Key) -> Any:
        epoch, indices = key
        with own_random_state(_CPU):
            seed_all(derived(self._seed, "microbatch", epoch, int(indices[0])), _CPU)  # for a make that reads no item
            return self._make(self._items(epoch), indices)

    def _items(self, epoch: int) -> Any:
        """The dataset, its items read under a seed each; a TensorDataset draws nothing and is sliced."""
        return self._dataset if type(self._dataset) is TensorDataset else _Items(self._dataset, self._seed, epoch)


class _Items:
    """A dataset as it is in one epoch. Attributes are the dataset's own."""

    def __init__(self, dataset: Any, seed: int, epoch: int) -> None:
        self._dataset, self._seed, self._epoch = dataset, seed, epoch

    def __getitem__(self, index: int) -> Any:
        seed_all(derived(self._seed, "item", self._epoch, int(index)), _CPU)
        return self._dataset[index]

    def __len__(self) -> int:
        return len(self._dataset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


def _stand_apart(worker: int) -> None:
    """A worker leaves the terminal's process group: Ctrl-C is for the run, which still needs its data to stop in order."""
    os.setpgrp()


def _unchanged(microbatch: M) -> M:
    return microbatch
