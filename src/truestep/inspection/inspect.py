"""Inspects attempts of a short training, of a task or an Update: what was asked is made ready, and undone afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import chain, repeat
from typing import Any

from truestep.engine.policy import Policy, scale_of
from truestep.engine.randomness import own_random_state
from truestep.engine.scale import LossScale
from truestep.engine.undo import undone
from truestep.engine.update import Update
from truestep.engine.windows import Window
from truestep.errors import UsageError
from truestep.inspection.inspecting import Inspecting
from truestep.inspection.result import Inspection
from truestep.run.beginning import beginning_of
from truestep.run.building import device_of
from truestep.run.their import told_as_theirs
from truestep.tasks import Task
from truestep.tasks.checking import demand_task
from truestep.tasks.loading import load


def inspect(
    what: Task | str | Update[Any],
    windows: Sequence[Sequence[Any]] | None = None,
    *,
    policy: str | Policy = "fp16",
    microbatches: int | None = None,
    attempts: int = 4,
    after: int = 8,
    seed: int = 0,
    device: str | None = None,
    scale: LossScale | None = None,
) -> Inspection:
    """Where the numbers of a model lie, by layer and kind, and what each number format would lose of them.

    A short training of `after` attempts and one more is made; `attempts` of them, spread evenly from the first to the last, are
    inspected. Where the policy's format has float32's range (fp32, tf32, bf16) the policy's own numbers are counted, and under
    bf16 the first microbatch runs in float32 too, to compare; else (fp16) the windows of the first and the last inspected
    attempt run in float32 first, from the same state, and that is counted, for what the policy flushed is not among its own
    numbers. Of the attempts between, the policy's own numbers move the scales that lose nothing. All of it is undone afterwards.

    Args:
        what: a Task, the name of one, or FILE.py:NAME; or an Update of one's own, whose policy it then is.
        windows: for an Update, its windows, each a list of microbatches, used in turn and again from the first.
        policy, microbatches, seed, device: of a task; None takes the task's, or the machine's.
        attempts: how many to inspect; after: how many attempts come before the last of them, at least `attempts` - 1.
        scale: a loss scale in place of the policy's, a power of two. One that is too large shows what overflows.

    Raises:
        UsageError: what was asked cannot be inspected.
        RunError, LossError, PolicyError: the task's own code failed, its loss is none, or it has an operation without a kernel in
            the policy's format; with its line.

    >>> from truestep.tasks import Logistic
    >>> found = inspect(Logistic(), policy="bf16", attempts=2, after=3)
    >>> [each.after for each in found.attempts], found.all("weight gradients").in_use.lost
    ([0, 3], 0)
    """
    if attempts < 1 or after < attempts - 1:
        raise UsageError(
            f"{attempts} attempts are to be inspected, with {after} before the last of them",
            hint="inspect at least 1, and let after be at least attempts - 1",
            attempts=attempts,
            after=after,
        )
    if isinstance(what, Update):
        if not windows:
            raise UsageError("an update is inspected on windows, and there are none", hint="inspect(update, windows)")
        given = [window if isinstance(window, Window) else list(window) for window in windows]
        with undone(what):
            what.scale = what.scale if scale is None else scale_of(what.plan.policy, scale, allow_underflow=True)
            return Inspecting(what, attempts, after).run(chain.from_iterable(repeat(given)), task=None, seed=None)
    task = load(what) if isinstance(what, str) else what
    demand_task(task)
    if windows is not None:
        raise UsageError("a task brings its own windows", hint="leave windows out, or inspect an Update")
    place = device_of(device)
    with own_random_state(place), told_as_theirs(task, policy, failed="while it was inspected"):
        begun = beginning_of(task, policy, microbatches=microbatches, seed=seed, device=place, scale=scale, allow_underflow=True)
        with closing(begun.feed):  # an exception keeps what it passed through, and so the processes that read for it
            return Inspecting(begun.update, attempts, after).run(begun.windows(), task=task.name, seed=seed)
