"""What a lab is: a claim with its source, the function that runs it on real tensors, and what is asked before it is told.

A lab is a file in the folder of its topic that defines `LAB`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from truestep.labs.asking.ask import Ask
from truestep.labs.shown import Shown
from truestep.run.isolation import own_threads

Topic = Literal["formats", "scaling", "accumulation", "clocks", "judging"]
TOPICS: dict[Topic, str] = {
    "formats": "Numbers and where they are kept",
    "scaling": "Scaling, unscaling, clipping",
    "accumulation": "Accumulation and weights",
    "clocks": "Skipped updates and clocks",
    "judging": "Judging a precision",
}
"""The topics in the order in which they build up."""


@dataclass(frozen=True, kw_only=True)
class After:
    """An arrow of the map: the lab that comes before, and why this one needs it."""

    lab: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Lab:
    """An executable fact.

    Attributes:
        name: what `truestep labs NAME` takes.
        facts: the rows of the lessons it shows ("A1").
        claim: the fact in one or two sentences, as its source has it where the source is wrong.
        source: who says it, or what it follows from.
        condition: what the claim needs to be true; None for a claim that is true as it stands.
        shows: runs it, on the CPU, in about a second.
        asks: what is asked before it is told.
        after: what one should have seen before.
    """

    name: str
    facts: tuple[str, ...]
    topic: Topic
    title: str
    claim: str
    source: str
    condition: str | None = None
    shows: Callable[[], Shown]
    asks: tuple[Ask, ...] = ()
    after: tuple[After, ...] = ()

    def run(self) -> Shown:
        """What the lab shows: the same every time, and torch's random state and threads are afterwards as they were.

        One thread, for the tensors are tiny (more would wait for each other), and sums are then in one order on every machine.
        """
        with torch.random.fork_rng(devices=[]), torch.enable_grad(), own_threads(1):
            torch.manual_seed(0)
            return self.shows()
