"""From a task, or an update and its window, to a footprint: faked, measured, and beside other choices; nothing of it stays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

from truestep.engine.plan import Measure
from truestep.engine.policy import POLICIES, Policy
from truestep.engine.randomness import own_random_state
from truestep.engine.update import Update
from truestep.engine.windows import Window
from truestep.errors import RunError, TruestepError, UsageError, WindowError
from truestep.footprint.allocator import allocator_of
from truestep.footprint.attempting import attempted
from truestep.footprint.facts import Beside
from truestep.footprint.footprint import Footprint
from truestep.footprint.log import Attempted, Attempts
from truestep.footprint.twin import copying, faking, like_window, twin
from truestep.footprint.watching import DataDependentError
from truestep.footprint.workspaces import Workspaces
from truestep.run.building import build, device_of, moved
from truestep.run.feed import Feed
from truestep.run.isolation import seed_all
from truestep.run.settings import Settings
from truestep.run.their import lacks_kernel, wider
from truestep.tasks import Task
from truestep.tasks.checking import demand_task
from truestep.tasks.place import file_of, their_code

TRIES = 40
"""Attempts until one completes: a dynamic loss scale halves from 2^16 to its floor in 32."""

OTHER_SPLIT = 4
"""Microbatches to compare a window of one with."""


def of_task(
    task: Task, settings: Settings, window: Sequence[Any] | None, *, policy: Policy, seed: int, measure: bool
) -> Footprint:
    """The footprint of a run's first window, or of `window`, from the weights and the data that a run with `seed` has.

    `policy` may be one that has no name in the settings' list.
    """
    demand_task(task)
    device = device_of(settings.device)
    with own_random_state(device):
        seed_all(seed, device)
        setup = build(task, settings, seed=seed, device=device, policy=policy)
        plan = setup.plan

        def split(microbatches: int) -> list[Any]:
            feed = Feed(task, setup.splits.train, batch=plan.batch, microbatches=microbatches, seed=seed)
            try:
                return [moved(microbatch, device) for microbatch in feed.window()]
            finally:
                feed.close()

        with their_code(file_of(task), failed="while its memory was measured"):
            own = split(plan.microbatches) if window is None else list(window)
            other = 1 if plan.microbatches > 1 else min(OTHER_SPLIT, plan.batch)
            splits = {other: split(other)} if window is None and other != plan.microbatches else {}
            return _footprint(
                setup.update, own, splits, subject=task.name, measured_on=(lambda: setup.update) if measure else None
            )


def of_update(update: Update[Any], window: Sequence[Any] | None, *, measure: bool) -> Footprint:
    """The footprint of `update(window)`; measured on a copy, so that the update stays as it is."""
    if window is None:
        raise UsageError("an update was given without a window", hint="give a list of microbatches: memory(update, [microbatch])")
    if any(isinstance(microbatch, Window) for microbatch in window):
        hint = "give one window, a list of microbatches: memory(update, windows[0])"
        raise WindowError("the window holds windows", hint=hint)

    def copied() -> Update[Any]:
        try:
            return twin(update, copying(), policy=update.plan.policy)
        except Exception as error:
            raise UsageError(
                f"the model or its optimizer cannot be copied: {_line(error)}",
                hint="what is measured is a copy, so that yours stays; measure=False predicts alone, a Task is built anew",
            ) from error

    with own_random_state(update.plan.device):
        own = list(window)
        return _footprint(update, own, {}, subject=type(update.model).__name__, measured_on=copied if measure else None)


def _footprint(
    update: Update[Any],
    window: list[Any],
    splits: dict[int, list[Any]],
    *,
    subject: str,
    measured_on: Callable[[], Update[Any]] | None,
) -> Footprint:
    plan = update.plan
    measures, policy = plan.measure(window), plan.policy
    if plan.evaluates_again:
        raise UsageError(
            f"{type(update.optimizers[0]).__name__} evaluates the loss again inside its step: its memory has no phases",
            hint="ask with an optimizer that steps once a window",
        )
    workspaces = Workspaces()
    predicted, why = _predicted(update, window, measures, policy, workspaces)
    if predicted is None and measured_on is None:
        raise RunError(f"nothing can be told: {why}", hint="measure it: measure=True (without --predict)")
    counted = workspaces.measured
    beside = []
    if predicted is not None:
        if policy.name != "fp32":
            beside.append(_beside(update, window, POLICIES["fp32"], workspaces))
        beside += [_beside(update, other, policy, workspaces) for other in splits.values()]
    params = list(update.model.parameters())
    return Footprint(
        subject=subject,
        policy=policy.name,
        optimizer=", ".join(dict.fromkeys(type(optimizer).__name__ for optimizer in update.optimizers)),
        device=str(plan.device),
        microbatches=len(window),
        parameters=sum(p.numel() for p in params),
        frozen=sum(p.numel() for p in params if not p.requires_grad),
        predicted=predicted,
        not_predicted=why,
        untold=_untold(update),
        workspaces_measured=counted if plan.device.type == "cpu" else None,
        measured=None if measured_on is None else _measured(measured_on(), window, measures),
        not_measured="a prediction alone was asked for" if measured_on is None else None,
        beside=tuple(each for each in beside if each is not None),
    )


def _predicted(
    update: Update[Any], window: list[Any], measures: Sequence[Measure], policy: Policy, workspaces: Workspaces
) -> tuple[Attempts | None, str | None]:
    """Two attempts on fakes, or why there can be none: whatever the model's code does with a fake that it cannot."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)  # constants of the loss's own, which nobody here can find and fake
    like = faking(mode)
    try:
        with mode, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")  # copies of a fake's state ask
            fake, fake_window = twin(update, like, policy=policy), like_window(window, like)
            first, later = (attempted(fake, fake_window, measures, workspaces=workspaces)[1] for _ in range(2))
    except (DataDependentError, DataDependentOutputException, DynamicOutputShapeException) as error:
        return None, f"shapes alone do not tell, for {_data_dependent(error)}"
    except Exception as error:
        return None, f"the model or its optimizer cannot be run on shapes alone ({_line(error)})"
    return Attempts(first=first, later=later), None


def _untold(update: Update[Any]) -> tuple[str, ...]:
    """What a prediction of this model cannot have."""
    modules = list(update.model.modules())
    found = []
    if any(getattr(module, "sparse", False) is True for module in modules):
        found.append(
            "the size of a sparse gradient, which has a row for each index of a batch, and where such gradients are summed for "
            "each distinct one"
        )
    return tuple(found)


def _beside(update: Update[Any], window: list[Any], policy: Policy, workspaces: Workspaces) -> Beside | None:
    found, _ = _predicted(update, window, update.plan.measure(window), policy, workspaces)
    if found is None:
        return None
    return Beside(policy=policy.name, microbatches=len(window), peak_bytes=found.peak_bytes, each=found.each)


def _measured(update: Update[Any], window: list[Any], measures: Sequence[Measure]) -> Attempts:
    """The first attempts that complete; a skipped one does not show the step, and lets a dynamic loss scale shrink."""
    found: list[Attempted] = []
    for _ in range(TRIES):
        allocator = allocator_of(update.plan.device)
        try:
            outcome, account = attempted(update, window, measures, allocator=allocator)
        except RuntimeError as error:
            policy = update.plan.policy
            if not lacks_kernel(error, policy):
                raise
            device = update.plan.device.type
            raise RunError(
                f"the model has an operation without a kernel for this format on the {device}: {_line(error)}",
                hint=f"{wider(policy)}, or a CUDA device; measure=False (--predict) needs no kernel",
            ) from error
        if outcome.completed:
            found.append(account)
        elif outcome.skip is not None and not outcome.skip.curable:
            break
        if len(found) == 2:
            return Attempts(first=found[0], later=found[1])
    skip = outcome.skip
    assert skip is not None
    raise RunError(
        f"no attempt completed, so that nothing of a step can be measured: {skip.reason.value}, {skip.detail}",
        hint="measure=False (--predict) tells what shapes alone say",
        reason=skip.reason.value,
    )


def _data_dependent(error: Exception) -> str:
    if isinstance(error, DataDependentError):
        return str(error)
    return f"the model's shapes or branches depend on its data ({_line(error)})"


def _line(error: Exception) -> str:
    words = error.summary if isinstance(error, TruestepError) else str(error)
    return f"{type(error).__name__}: {words.strip().splitlines()[0]}" if words.strip() else type(error).__name__
