"""A task as a subject: the update and the windows that a run of it would have, from its first attempt on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from truestep.engine.clip import Clip
from truestep.engine.policy import Policy
from truestep.engine.randomness import own_random_state
from truestep.engine.scale import LossScale
from truestep.run.building import Setup, build, device_of, moved
from truestep.run.feed import Feed
from truestep.run.isolation import seed_all
from truestep.run.sampling import derived
from truestep.run.settings import Settings
from truestep.tasks import Task
from truestep.verification.subject import Full, Subject
from truestep.verification.subject_join import Unequal, joined
from truestep.verification.subject_update import subject_of_update


def subject_of_task(
    task: Task,
    *,
    policy: str | Policy,
    microbatches: int | None,
    seed: int,
    device: str | None,
    scale: LossScale | None,
    clip: Clip | None,
) -> tuple[Subject, Setup]:
    """The subject, and the setup of the run that it comes from."""
    settings = Settings(
        policy=policy,  # type: ignore[arg-type]  # a record wants a name, and there is none here; the update takes both
        microbatches=microbatches,
        scale=scale,
        allow_underflow=scale is not None and scale.kind == "none",  # who asks for none means it
        clip=clip,
    )
    setup = build(task, settings, seed=seed, device=device_of(device))
    return subject_of_update(setup.update, title=task.name), setup


def full_batches(task: Task, setup: Setup, *, seed: int, attempts: int) -> Iterator[Full]:
    """The first windows of a run with `seed`, each with its full batch, on the model's device."""
    device = setup.update.plan.device
    feed = Feed(task, setup.splits.train, batch=setup.plan.batch, microbatches=setup.plan.microbatches, seed=seed)
    seed_all(derived(seed, "draws"), device)
    try:
        for _ in range(attempts):
            window = feed.window()
            whole, why_not = _whole(task, setup, feed, window)
            yield Full(moved(list(window), device), moved(whole, device), why_not)
            feed.move_on()
    finally:
        feed.close()


def _whole(task: Task, setup: Setup, feed: Feed, window: list[Any]) -> tuple[Any, str | None]:
    """All examples of the window as the task itself puts them together; items that workers draw at random are joined as drawn."""
    if len(window) == 1:
        return window[0], None
    if task.workers is None:
        with own_random_state(torch.device("cpu")):
            return task.microbatch(setup.splits.train, torch.cat(feed.portion.parts)), None
    try:
        return joined(window), None
    except Unequal as error:
        return None, str(error)
