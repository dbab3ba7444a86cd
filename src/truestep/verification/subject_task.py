"""The windows of a task, as a run of it has them from its first attempt on, each with its full batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch

from truestep.engine.randomness import own_random_state, random_state
from truestep.engine.windows import Window
from truestep.probe.tree import leaves
from truestep.run.beginning import Beginning
from truestep.run.building import moved
from truestep.run.isolation import seed_all
from truestep.run.sampling import derived
from truestep.tasks import Task
from truestep.verification.subject import Full
from truestep.verification.subject_join import full_of


def full_batches(task: Task, begun: Beginning, *, seed: int, attempts: int) -> Iterator[Full]:
    """The first windows of a run with `seed`, each with its full batch, on the model's device."""
    seed_all(derived(seed, "draws"), begun.device)
    for window in islice(begun.windows(), attempts):
        full = _full(task, begun, window)
        yield full._replace(joined=moved(full.joined, begun.device))


def _full(task: Task, begun: Beginning, window: Window[Any]) -> Full:
    """All examples of the window as the task's own collation puts them together; as they were drawn, where it draws at random."""
    if len(window) > 1 and task.workers is None and type(task).microbatch is not Task.microbatch:
        whole = _by_the_task(task, begun)
        if whole is not None:
            return Full(window, whole, None)
    return full_of(window)


def _by_the_task(task: Task, begun: Beginning) -> Any:
    """None where two draws differ, or random state is moved: what the window holds is then not drawn again."""
    train, indices = begun.setup.splits.train, torch.cat(begun.feed.portion.parts)
    with own_random_state(torch.device("cpu")):
        before = random_state()
        one, other = (task.microbatch(train, indices) for _ in range(2))
        drew = not _same(before, random_state())
    arrays = [[leaf for _, leaf in leaves(each)] for each in (one, other)]
    return None if drew or not _same(*arrays) else one


def _same(one: Any, other: Any) -> bool:
    """Whether two trees of arrays and plain values are equal to the last bit."""
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_same, one, other))
    if hasattr(one, "shape"):
        return bool(torch.equal(one, other) if isinstance(one, torch.Tensor) else np.array_equal(one, other))
    return bool(one == other)
