"""Which examples come when: a pure function of seed and epoch, the same for every candidate."""

from __future__ import annotations

import hashlib

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
