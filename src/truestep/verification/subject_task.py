"""The windows of a task, as a run of it has them from its first attempt on, each with its full batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch

from truestep.engine.randomness import own_random_state
from truestep.run.beginning import Beginning
from truestep.run.building import moved
from truestep.run.isolation import seed_all
from truestep.run.sampling import derived
from truestep.tasks import Task
from truestep.verification.subject import Full
from truestep.verification.subject_join import Unequal, joined


def full_batches(task: Task, begun: Beginning, *, seed: int, attempts: int) -> Iterator[Full]:
    """The first windows of a run with `seed`, each with its full batch, on the model's device."""
    seed_all(derived(seed, "draws"), begun.device)
    for window in islice(begun.windows(), attempts):
        whole, why_not = _whole(task, begun, window)
        yield Full(list(window), moved(whole, begun.device), why_not)


def _whole(task: Task, begun: Beginning, window: list[Any]) -> tuple[Any, str | None]:
    """All examples of the window as the task itself puts them together; items that workers draw at random are joined as drawn."""
    if len(window) == 1:
        return window[0], None
    if task.workers is None:
        with own_random_state(torch.device("cpu")):
            return task.microbatch(begun.setup.splits.train, torch.cat(begun.feed.portion.parts)), None
    try:
        return joined(window), None
    except Unequal as error:
        return None, str(error)
