"""`truestep.verify`: is the gradient at the optimizer the float32 full batch's? Attempt after attempt, from equal state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar, overload

from torch import nn
from torch.optim import Optimizer

from truestep.engine.clip import Clip
from truestep.engine.policy import Policy
from truestep.engine.randomness import own_random_state
from truestep.engine.scale import LossScale
from truestep.engine.terms import Loss
from truestep.engine.update import Update
from truestep.engine.weights import LossIs
from truestep.engine.windows import demand_window
from truestep.errors import UsageError
from truestep.run.beginning import beginning_of
from truestep.run.building import device_of
from truestep.run.their import told_as_theirs
from truestep.tasks import Task, load
from truestep.verification.comparing import Comparison
from truestep.verification.result import Verification
from truestep.verification.subject import Full, Subject
from truestep.verification.subject_join import full_of
from truestep.verification.subject_task import full_batches
from truestep.verification.subject_update import subject_of_step, subject_of_update

M = TypeVar("M")
Join = Callable[[list[Any]], Any]
ATTEMPTS = 8
"""Of a task, where nobody says how many."""


@overload
def verify(
    what: Task | str,
    *,
    policy: str | Policy = "fp16",
    microbatches: int | None = None,
    seed: int = 0,
    device: str | None = None,
    scale: LossScale | None = None,
    clip: Clip | None = None,
    attempts: int = ATTEMPTS,
) -> Verification: ...


@overload
def verify(what: Update[M], windows: Sequence[list[M]], *, join: Callable[[list[M]], M] | None = None) -> Verification: ...


@overload
def verify(
    what: Callable[[list[M]], object],
    windows: Sequence[list[M]],
    *,
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    loss: Callable[[Any, M], Loss],
    loss_is: LossIs = "mean",
    weight: Callable[[M], Any] | None = None,
    clip: Clip | None = None,
    scale: Any = None,
    join: Callable[[list[M]], M] | None = None,
) -> Verification: ...


def verify(what: Any, windows: Any = None, **options: Any) -> Verification:
    """Whether accumulated mixed-precision updates have the gradient of the plain float32 full batch, as far as formats allow.

    Each attempt starts where the one before has ended. From its state the full batch is computed in float32 and in float64, then
    the attempt is made, and what reaches each optimizer at its step is held against float64, parameter by parameter; the result
    prints the tolerance with its derivation. A full batch is all examples in one forward; where microbatches cannot be laid end
    to end, the weighted sum of their losses in one backward stands in. Afterwards all is as before: weights, optimizer state,
    loss scale, counts, schedule, buffers, gradients and random state.

    Args:
        what: a Task or its name ("digits", "FILE.py:NAME"), run from its first attempt on; an `Update`; or a function that
            performs one window of a loop of your own on `model` and `optimizer`: zero, backwards, unscale, clip, step. What it
            closes over beside these, such as its GradScaler, is not put back.
        windows: of an update or function: lists of microbatches, one list an attempt.
        join: from a window to one microbatch of all its examples; None: tensors are laid end to end along their first dimension
            in tuples, mappings and dataclasses, and whole numbers added.
        policy, microbatches, seed, device, scale, clip, attempts: of a task, as a run takes them.
        model, optimizer (one, or a list), loss, loss_is, weight, clip: of a function, what `Update` would be told: what
            the loop is meant to do.
        scale: of a function, its GradScaler, or a number, or a function that returns it; None: unknown.

    Returns:
        A Verification: `passed`, `rows` by parameter, `bias`, and where it failed what the mistake looks like; `str()` explains
        it. Attempts that were skipped are told with their reason; where all were, nothing has passed.

    Raises:
        UsageError: an option that does not belong to what is verified. WindowError: a window without a microbatch.

    >>> import torch
    >>> model = nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> def step(window):
    ...     optimizer.zero_grad()
    ...     for x in window:
    ...         (model(x).square().mean() / len(window)).backward()
    ...     optimizer.step()
    >>> windows = [[torch.randn(4, 2), torch.randn(4, 2)] for _ in range(3)]
    >>> verify(step, windows, model=model, optimizer=optimizer, loss=lambda model, x: model(x).square().mean()).passed
    True
    """
    if isinstance(what, (Task, str)):
        return _task(load(what) if isinstance(what, str) else what, windows, **_only(options, _keywords(_task), "a task"))
    if isinstance(what, Update):
        join = _only(options, ("join",), "an update").get("join")
        return _verified(subject_of_update(what, title=type(what.model).__name__), _fulls(windows, join))
    if not callable(what):
        raise UsageError(
            f"a {type(what).__name__} cannot be verified",
            hint="pass a task, the name of one, a truestep.Update, or a function that performs one window",
        )
    named = _only(options, (*_keywords(subject_of_step), "join"), "a function")
    missing = [name for name in ("model", "optimizer", "loss") if named.get(name) is None]
    if missing:
        raise UsageError(
            f"a function that performs a window comes without {', '.join(missing)}", hint="pass model=, optimizer=, loss="
        )
    join = named.pop("join", None)
    return _verified(subject_of_step(what, **named), _fulls(windows, join))


def _keywords(function: Callable[..., object]) -> tuple[str, ...]:
    """The options that it takes by name."""
    taken = inspect.signature(function).parameters.values()
    return tuple(each.name for each in taken if each.kind is inspect.Parameter.KEYWORD_ONLY)


def _only(options: dict[str, Any], known: Sequence[str], of: str) -> dict[str, Any]:
    """`options`; UsageError where one of them has no meaning for what is verified."""
    for name in options:
        if name not in known:
            raise UsageError(f"{name}= says nothing about {of}", hint=f"{of} takes: {', '.join(known)}", option=name)
    return options


def _task(
    task: Task,
    windows: Any,
    *,
    policy: str | Policy = "fp16",
    microbatches: int | None = None,
    seed: int = 0,
    device: str | None = None,
    scale: LossScale | None = None,
    clip: Clip | None = None,
    attempts: int = ATTEMPTS,
) -> Verification:
    if windows is not None:
        raise UsageError("a task has windows of its own", hint="leave windows out, or pass an Update with them")
    if attempts < 1:
        raise UsageError(f"{attempts} attempts compare nothing", hint="ask for at least 1", attempts=attempts)
    place = device_of(device)
    none = scale is not None and scale.kind == "none"  # who asks for none means it
    with told_as_theirs(task, policy, failed="while it was verified"), own_random_state(place):
        begun = beginning_of(
            task, policy, microbatches=microbatches, seed=seed, device=place, scale=scale, allow_underflow=none, clip=clip
        )
        subject = subject_of_update(begun.update, title=task.name)
        with closing(begun.feed):  # an exception keeps what it passed through, and so the processes that read for it
            return _compared(subject, full_batches(task, begun, seed=seed, attempts=attempts))


def _fulls(windows: Any, join: Join | None) -> list[Full]:
    """Every window with its full batch; they are all looked at before anything is done."""
    if windows is not None and not hasattr(windows, "__len__"):
        raise UsageError(
            f"windows= is a {type(windows).__name__}, and all windows are looked at before anything is done",
            hint="pass a list of them: windows=list(...)",
        )
    if windows is None or not len(windows):
        raise UsageError("there is no window to attempt", hint="pass windows=: a list of lists of microbatches")
    for window in windows:
        demand_window(window)
    return [full_of(window) if join is None else Full(window, join(window), None) for window in windows]


def _verified(subject: Subject, fulls: Sequence[Full]) -> Verification:
    with subject.kept():
        return _compared(subject, fulls)


def _compared(subject: Subject, fulls: Iterator[Full] | Sequence[Full]) -> Verification:
    comparison = Comparison(subject)
    for full in fulls:
        comparison.attempt(full)
    return comparison.result()
