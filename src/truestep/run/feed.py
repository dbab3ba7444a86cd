"""A run's windows, one after another from any place in its data; the place is that of the windows that were taken."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from truestep.engine.windows import Window
from truestep.run.reading import Key, read
from truestep.run.sampling import Portion, Position, portions
from truestep.tasks import Task


class Feed:
    """What a run trains on.

    >>> from truestep.tasks import Logistic
    >>> feed = Feed(Logistic(), Logistic().splits().train, batch=100, microbatches=2, seed=0)
    >>> feed.window().ends_epoch, feed.portion.examples, feed.position
    (False, 100, Position(epoch=0, examples=0))
    >>> feed.move_on()
    >>> feed.window().ends_epoch, feed.portion.examples, feed.position
    (True, 28, Position(epoch=0, examples=100))
    """

    def __init__(self, task: Task, dataset: Any, *, batch: int, microbatches: int, seed: int) -> None:
        self._task, self._dataset, self._batch, self._seed = task, dataset, batch, seed
        self.microbatches = microbatches
        self.position = Position()
        self._coming: Iterator[tuple[Portion, Window[Any]]] | None = None
        self._there: tuple[Portion, Window[Any]] | None = None

    @property
    def portion(self) -> Portion:
        """What the window at the position holds, once it was read."""
        assert self._there is not None
        return self._there[0]

    @property
    def largest(self) -> int:
        """Examples of its largest microbatch."""
        return max(map(len, self.portion.parts))

    def window(self) -> Window[Any]:
        """The window at the position, on the CPU."""
        if self._there is None:
            self._coming = self._coming or self._from(self.position)
            self._there = next(self._coming)
        return self._there[1]

    def move_on(self) -> None:
        """The window at the position has been attempted."""
        self.position, self._there = self.portion.after, None

    def go_to(self, position: Position, *, microbatches: int) -> None:
        """Go on at `position`, with windows of `microbatches`: the same examples, split otherwise."""
        self.position, self.microbatches = position, microbatches
        self._coming = self._there = None

    def close(self) -> None:
        """Read no further: workers end."""
        self._coming = self._there = None

    def finer(self) -> int | None:
        """Into how many microbatches to split so that the largest of the window holds half as much; None where it holds 1."""
        return None if self.largest == 1 else min(2 * self.microbatches, self._batch)

    def _from(self, position: Position) -> Iterator[tuple[Portion, Window[Any]]]:
        ordered = functools.partial(
            portions,
            position,
            examples=len(self._dataset),
            batch=self._batch,
            microbatches=self.microbatches,
            seed=self._seed,
        )
        keys = ((portion.epoch, part) for portion in ordered() for part in portion.parts)
        return _grouped(ordered(), _microbatches(keys, self._task, self._dataset, seed=self._seed))


def _microbatches(keys: Iterator[Key], task: Task, dataset: Any, *, seed: int) -> Iterator[Any]:
    """Made here under the run's random state, or, where the task says how many workers, as `read` does."""
    if task.workers is None:
        return (task.microbatch(dataset, indices) for _, indices in keys)
    return read(keys, task.microbatch, dataset, seed=seed, workers=task.workers)


def _grouped(portions: Iterator[Portion], microbatches: Iterator[Any]) -> Iterator[tuple[Portion, Window[Any]]]:
    for portion in portions:
        window: Window[Any] = Window(next(microbatches) for _ in portion.parts)
        window.ends_epoch = portion.ends_epoch
        yield portion, window
