"""The beginning of a run of a task, for whoever looks at its first attempts: its update, and its windows on the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from truestep.engine.clip import Clip
from truestep.engine.policy import Policy
from truestep.engine.scale import LossScale
from truestep.engine.update import Update
from truestep.engine.windows import Window
from truestep.run.building import Setup, build, on_device
from truestep.run.feed import Feed
from truestep.run.settings import Settings
from truestep.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """A run that is ready for its first attempt, without a record."""

    setup: Setup
    feed: Feed
    device: torch.device

    @property
    def update(self) -> Update[Any]:
        """What attempts its windows."""
        return self.setup.update

    def windows(self) -> Iterator[Window[Any]]:
        """One after another without end, each on the device; `feed` stands at the one that was taken last."""
        try:
            while True:
                yield on_device(self.feed.window(), self.device)
                self.feed.move_on()
        finally:
            self.feed.close()


def beginning_of(
    task: Task,
    policy: str | Policy,
    *,
    microbatches: int | None,
    seed: int,
    device: torch.device,
    scale: LossScale | None,
    allow_underflow: bool,
    clip: Clip | None = None,
) -> Beginning:
    """The beginning of the run of `task` with `seed`; a Policy object is taken as it is, and not by its name.

    >>> from truestep.tasks import Logistic
    >>> cpu = torch.device("cpu")
    >>> begun = beginning_of(
    ...     Logistic(), "fp32", microbatches=4, seed=0, device=cpu, scale=None, allow_underflow=False
    ... )
    >>> [len(rows) for rows, _ in next(begun.windows())]
    [32, 32, 32, 32]
    """
    asked = Policy.named(policy)
    settings = Settings(policy=asked.name, microbatches=microbatches, scale=scale, allow_underflow=allow_underflow, clip=clip)
    setup = build(task, settings, seed=seed, device=device, policy=asked)
    plan = setup.plan
    feed = Feed(task, setup.splits.train, batch=plan.batch, microbatches=plan.microbatches, seed=seed)
    return Beginning(setup=setup, feed=feed, device=device)
