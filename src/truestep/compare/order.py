"""The order of the runs: interleaved by seed, rotated within a seed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One run's place: which candidate, on which seed, as which run of the comparison (from 1)."""

    candidate: str
    seed: int
    position: int


IN_WORDS = (
    "by seed; within a seed the candidates, rotated by one from seed to seed; each run in a process of its own, after a warm-up "
    "in it, discarded"
)


def order(candidates: Sequence[str], seeds: Sequence[int]) -> tuple[Slot, ...]:
    """Every candidate on every seed: all of one seed before the next, each seed beginning one candidate later.

    Slow drifts of the machine so fall on all candidates alike, and none is always the first on a new seed.

    >>> [(slot.candidate, slot.seed) for slot in order(["fp32", "fp16"], [0, 1])]
    [('fp32', 0), ('fp16', 0), ('fp16', 1), ('fp32', 1)]
    """
    turns = [
        (candidates[(index + turn) % len(candidates)], seed)
        for index, seed in enumerate(seeds)
        for turn in range(len(candidates))
    ]
    return tuple(Slot(candidate=c, seed=seed, position=i) for i, (c, seed) in enumerate(turns, start=1))


def remaining(slots: Iterable[Slot], done: Iterable[tuple[str, int]]) -> tuple[Slot, ...]:
    """The slots whose (candidate, seed) is not among `done`, in their order.

    >>> remaining(order(["fp32", "fp16"], [0]), [("fp32", 0)])
    (Slot(candidate='fp16', seed=0, position=2),)
    """
    finished = set(done)
    return tuple(slot for slot in slots if (slot.candidate, slot.seed) not in finished)
