"""An order of data for a loop of one's own, which goes on at the very microbatch where a checkpoint was taken."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from torch import Tensor
from torch.utils.data import default_collate

from truestep.errors import StateError, UsageError
from truestep.run.reading import read
from truestep.run.sampling import Portion, Position, portions

OPTIONS = ("pin_memory", "prefetch_factor", "timeout", "multiprocessing_context", "worker_init_fn")
"""What may be said to the DataLoader: the rest is decided by the order."""


class Shuffled:
    """Microbatches of a map-style dataset, shuffled anew each epoch, read by a torch DataLoader, with a position to save.

    A `for` over it, or over `truestep.windows` of it, takes what is left of the epoch; the next one takes the next epoch. The
    position is that of the microbatches
    taken, whatever the workers have read ahead. Order and items follow from (seed, epoch, index): random augmentation gives the
    same for any number of workers, and again after a resume, and moves no random state of this process. That holds for torch's
    global generator on the CPU, NumPy's and Python's, not for generators that a dataset makes itself.

    Args:
        dataset: has a length, and an item for each index.
        batch: examples of a microbatch; the last one of an epoch may be short.
        seed: decides the order and what is drawn at random.
        workers: processes that read; 0 reads in this one. They live on from epoch to epoch.
        collate: from a list of items to a microbatch; what it draws is seeded too. None: torch's default_collate.
        options: more for the DataLoader: pin_memory, prefetch_factor, timeout, multiprocessing_context, worker_init_fn.

    Raises:
        UsageError: an empty dataset or one without a length, or a number that cannot be.

    >>> data = Shuffled(range(5), batch=2, seed=0)
    >>> first = next(iter(data))
    >>> state = data.state_dict()
    >>> rest = [microbatch.tolist() for microbatch in data]
    >>> again = Shuffled(range(5), batch=2, seed=0)
    >>> again.load_state_dict(state)
    >>> [microbatch.tolist() for microbatch in again] == rest, sorted(first.tolist() + sum(rest, []))
    (True, [0, 1, 2, 3, 4])
    """

    def __init__(
        self,
        dataset: Any,
        *,
        batch: int,
        seed: int,
        workers: int = 0,
        collate: Callable[[list[Any]], Any] | None = None,
        **options: Any,
    ) -> None:
        for name, number, least in (("batch", batch, 1), ("workers", workers, 0)):
            if number < least:
                raise UsageError(f"{name} is {number}", hint=f"{name} is {least} or more", field=name, value=number)
        for name in options:
            if name not in OPTIONS:
                raise UsageError(
                    f"Shuffled knows no option {name!r}",
                    hint=f"write batch, workers and collate, and for the DataLoader: {', '.join(OPTIONS)}",
                    option=name,
                )
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__") or len(dataset) == 0:
            raise UsageError(
                f"a {type(dataset).__name__} without a length, items, or an example cannot be shuffled",
                hint="give a map-style dataset; for an iterable one use torchdata's StatefulDataLoader",
            )
        self._dataset, self._batch, self._seed, self._workers = dataset, batch, seed, workers
        self._collate, self._options = collate or default_collate, options
        self._position = Position()
        self._coming: Iterator[tuple[Portion, Any]] | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the next microbatch, counted from 0."""
        return self._position.epoch

    @property
    def ends_epoch(self) -> bool:
        """Whether an epoch ends at the position; `truestep.windows` asks, and need not read ahead."""
        return self._position.examples == 0

    def __len__(self) -> int:
        """Microbatches of a whole epoch."""
        return math.ceil(len(self._dataset) / self._batch)

    def __iter__(self) -> Iterator[Any]:
        """The microbatches from the position to the end of its epoch."""
        while True:
            portion, microbatch = self._next()
            self._position = portion.after
            yield microbatch
            if portion.ends_epoch:
                return

    def state_dict(self) -> dict[str, Any]:
        """The position, and what it is a position in, as plain values."""
        return {"schema": 1, "seed": self._seed, "size": len(self._dataset), **asdict(self._position)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; `batch` and `workers` may be others than then.

        StateError for a state of another dataset's size or another seed, or for none, and then nothing has changed.
        """
        expected = self.state_dict()
        if state.keys() != expected.keys():
            raise StateError(
                f"this is no position in the data: it holds {', '.join(map(str, state)) or 'nothing'}",
                hint="pass what Shuffled.state_dict() gave",
            )
        for name in ("schema", "seed", "size"):
            if state[name] != expected[name]:
                raise StateError(
                    f"the position was taken with {name} {state[name]!r}, and here it is {expected[name]!r}",
                    hint="a position belongs to one order: build Shuffled with the dataset and the seed that it was taken with",
                    field=name,
                )
        self._position, self._coming = Position(epoch=state["epoch"], examples=state["examples"]), None

    def _next(self) -> tuple[Portion, Any]:
        """The next microbatch; after a failure the one that failed is the next one again."""
        if self._coming is None:
            self._coming = self._from(self._position)
        try:
            return next(self._coming)
        except BaseException:
            self._coming = None
            raise

    def _from(self, position: Position) -> Iterator[tuple[Portion, Any]]:
        """Microbatches without an end, so that the workers need not begin anew with each epoch.

        None of it holds on to this object: dropped, it ends its workers at once, and a fork later on finds nothing of them.
        """
        ordered = functools.partial(
            portions, position, examples=len(self._dataset), batch=self._batch, microbatches=1, seed=self._seed
        )
        keys = ((portion.epoch, portion.parts[0]) for portion in ordered())
        make = functools.partial(_collated, self._collate)
        read_ahead = read(keys, make, self._dataset, seed=self._seed, workers=self._workers, **self._options)
        return zip(ordered(), read_ahead, strict=True)


def _collated(collate: Callable[[list[Any]], Any], items: Any, indices: Tensor) -> Any:
    return collate([items[index] for index in indices.tolist()])
