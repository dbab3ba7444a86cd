"""Which examples come when: a pure function of seed and epoch, the same for every candidate."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


def derived(seed: int, *words: str | int) -> int:
    """A seed for one purpose of a run: 63 bits of SHA-256 over `seed` and `words`.

    >>> derived(0, "order", 1) != derived(1, "order", 0)
    True
    """
    text = "/".join(map(str, (seed, *words)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def order(examples: int, *, seed: int, epoch: int) -> Tensor:
    """The indices of all `examples` in the order of `epoch`, which counts from 0.

    >>> sorted(order(4, seed=0, epoch=0).tolist())
    [0, 1, 2, 3]
    """
    # torch's generator on the CPU takes 32 bits of a seed: two epochs of a run agree once in 2^32
    return torch.randperm(examples, generator=torch.Generator().manual_seed(derived(seed, "order", epoch)))


def windows_of(indices: Tensor, *, batch: int, microbatches: int) -> list[list[Tensor]]:
    """An epoch's indices as windows of `batch` examples in `microbatches` parts as equal as can be; the last may be short.

    How a window is split leaves its examples and their order alone. No microbatch is empty.

    >>> [[len(part) for part in window] for window in windows_of(torch.arange(11), batch=6, microbatches=4)]
    [[2, 2, 1, 1], [2, 1, 1, 1]]
    """
    return [list(part.tensor_split(min(microbatches, len(part)))) for part in torch.split(indices, batch)]


@dataclass(frozen=True, kw_only=True)
class Position:
    """A place in the data, between two windows: everything of `epoch` up to `examples` has been taken."""

    epoch: int = 0
    examples: int = 0


@dataclass(frozen=True, kw_only=True)
class Portion:
    """The examples of one window."""

    epoch: int
    parts: list[Tensor]
    """The indices of each microbatch."""
    after: Position
    """Where the data go on once the window has been taken."""

    @property
    def examples(self) -> int:
        """How many it holds."""
        return sum(map(len, self.parts))

    @property
    def ends_epoch(self) -> bool:
        """Whether it is the last of its epoch."""
        return self.after.epoch > self.epoch


def portions(position: Position, *, examples: int, batch: int, microbatches: int, seed: int) -> Iterator[Portion]:
    """The windows from `position` on, epoch after epoch without an end.

    Which examples they hold follows from seed and position alone; `microbatches` only splits them.

    >>> for each in itertools.islice(portions(Position(examples=4), examples=5, batch=2, microbatches=1, seed=0), 2):
    ...     each.examples, each.ends_epoch, each.after
    (1, True, Position(epoch=1, examples=0))
    (2, False, Position(epoch=1, examples=2))
    """
    for epoch in itertools.count(position.epoch):
        taken = position.examples if epoch == position.epoch else 0
        indices = order(examples, seed=seed, epoch=epoch)[taken:]
        for parts in windows_of(indices, batch=batch, microbatches=microbatches):
            taken += sum(map(len, parts))
            after = Position(epoch=epoch, examples=taken) if taken < examples else Position(epoch=epoch + 1)
            yield Portion(epoch=epoch, parts=parts, after=after)
