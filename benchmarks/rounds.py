"""Contenders take turns: the seconds of each in every round, and ratios that are taken round by round.

What else the machine does comes and goes more slowly than a round passes, so that it meets both sides of a ratio; the order is
drawn anew in each round, because whoever runs first or after a large one finds other caches.
"""

from __future__ import annotations

import math
import random
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

FEWEST = 3
"""Rounds that are made however long they take."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median of some values, and between what the middle nine tenths of them lie."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """That of one value or more: 5 % of them lie below `low`, 5 % above `high`, neighbours joined by a line.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.1, high=2.9)
        """
        return Spread(median=statistics.median(values), low=_quantile(values, 0.05), high=_quantile(values, 0.95))

    def text(self, digits: int = 3, *, signed: bool = False) -> str:
        """The median, with both bounds behind it."""
        shape = f"{'+' if signed else ''}.{digits}f"
        return f"{self.median:{shape}} [{self.low:{shape}}, {self.high:{shape}}]"


def ratios(over: Sequence[float], under: Sequence[float]) -> Spread:
    """Those of two contenders, round by round."""
    return Spread.of([one / other for one, other in zip(over, under, strict=True)])


def excesses(over: Sequence[float], floor: Sequence[float]) -> Spread:
    """What a contender takes above a floor, in floors, round by round."""
    return Spread.of([one / other - 1.0 for one, other in zip(over, floor, strict=True)])


def taking_turns(
    contenders: Mapping[str, Callable[[], float]], *, rounds: int, warm: int = 1, most_seconds: float = math.inf, seed: int = 0
) -> dict[str, list[float]]:
    """What each contender says it took, in each round.

    `warm` rounds before them do not count. After `most_seconds` no round is begun, but three are made in any case.
    """
    order, begun = random.Random(seed), time.perf_counter()
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(-warm, rounds):
        if number >= FEWEST and time.perf_counter() - begun > most_seconds:
            break
        found = {name: contenders[name]() for name in order.sample(list(contenders), len(contenders))}
        if number >= 0:
            for name, seconds in found.items():
                spent[name].append(seconds)
    return spent


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """What `work` takes by `clock`; by default of the processor, which other work disturbs less than the wall's."""
    begun = clock()
    work()
    return clock() - begun


def children_seconds() -> float:
    """Of the processor, by all children that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
