"""Where a run's seconds go: a stopwatch with five dials, one of which is always running."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Dial = Literal["init", "train", "eval", "checkpoint", "waste"]
DIALS: tuple[str, ...] = get_args(Dial)
"""The fields of `Clocks`, in their order."""

PRIMARY: tuple[str, ...] = ("train", "waste")
"""What a time to target is made of."""


def primary_seconds(clocks: Mapping[str, float]) -> float:
    """The seconds that a time to target is made of, from a record's clocks.

    >>> primary_seconds({"init": 9.0, "train": 3.0, "eval": 1.0, "waste": 0.5})
    3.5
    """
    return math.fsum(clocks[dial] for dial in PRIMARY)


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Seconds by what they were spent on. Their sum is the run's total.

    >>> Clocks(train=3.0, eval=1.0, waste=0.5).primary
    3.5
    """

    init: float = 0.0
    train: float = 0.0
    """Data, forward, backward, update, ledger, and the caller's progress and stop."""
    eval: float = 0.0
    checkpoint: float = 0.0
    waste: float = 0.0
    """Work that was rolled back: what a killed process did after its last checkpoint."""

    @property
    def primary(self) -> float:
        """What a time to target is made of."""
        return primary_seconds(vars(self))

    @property
    def total(self) -> float:
        """The sum of all."""
        return math.fsum(vars(self).values())

    def plus(self, other: Clocks) -> Clocks:
        """Both together, dial by dial."""
        return Clocks(**{dial: seconds + getattr(other, dial) for dial, seconds in vars(self).items()})


def resumed(saved: Clocks, last: Clocks) -> Clocks:
    """Where the clocks of a run stand that goes back to a checkpoint.

    What was spent between the two is waste, on whatever dial, but for the saving of checkpoints.

    Args:
        saved: the clocks in the checkpoint.
        last: the last that is known of the process that ended.

    >>> resumed(Clocks(train=3.0, checkpoint=1.0), Clocks(train=5.0, eval=0.5, checkpoint=1.25))
    Clocks(init=0.0, train=3.0, eval=0.0, checkpoint=1.25, waste=2.5)
    """
    saving = max(0.0, last.checkpoint - saved.checkpoint)
    rolled_back = max(0.0, last.total - saved.total - saving)
    return saved.plus(Clocks(checkpoint=saving, waste=rolled_back))


class Stopwatch:
    """Charges every second since its making to exactly one dial, beginning with "init".

    >>> now = iter([0.0, 2.0, 5.0, 6.0])
    >>> watch = Stopwatch(now=lambda: next(now))
    >>> watch.turn("train")
    'init'
    >>> watch.turn("eval")
    'train'
    >>> watch.read()
    Clocks(init=2.0, train=3.0, eval=1.0, checkpoint=0.0, waste=0.0)
    """

    def __init__(self, *, now: Callable[[], float] = time.perf_counter, synchronize: Callable[[], None] = lambda: None) -> None:
        self._now, self._synchronize = now, synchronize
        self._dial: Dial = "init"
        self._clocks = Clocks()
        self._since = now()

    def turn(self, dial: Dial) -> Dial:
        """From now on the seconds go to `dial`; the device's work so far is waited for and charged to the dial before.

        Returns the dial before.
        """
        self._synchronize()
        self._clocks, self._since = self._charged()
        before, self._dial = self._dial, dial
        return before

    def go_on(self, earlier: Clocks) -> None:
        """Add what earlier processes of the run have spent."""
        self._clocks = self._clocks.plus(earlier)

    def read(self) -> Clocks:
        """The dials at this moment. It does not wait for the device: `turn` before a reading that must be exact."""
        return self._charged()[0]

    def _charged(self) -> tuple[Clocks, float]:
        now = self._now()
        spent = dict(vars(self._clocks))
        spent[self._dial] += now - self._since
        return Clocks(**spent), now
