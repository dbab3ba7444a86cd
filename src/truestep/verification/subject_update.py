"""Subjects: an `Update` of one's own, and a hand-written function that performs one window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from torch import nn
from torch.optim import Optimizer

from truestep.engine.clip import Clip, NoClip, clip_of
from truestep.engine.demands import demand_model, demand_optimizers
from truestep.engine.parameters import names_of, parameters_of
from truestep.engine.terms import Loss
from truestep.engine.undo import put_back, undone
from truestep.engine.update import Update
from truestep.engine.weights import LossIs, weight_of
from truestep.engine.windows import examples_of
from truestep.errors import OptimizerError, SkipLimitError, UsageError
from truestep.verification.subject import Subject

Scale = Callable[[], float | None]


def subject_of_update(update: Update[Any], *, title: str) -> Subject:
    """An update with all that was declared to it."""
    plan = update.plan
    return Subject(
        title=title,
        policy=plan.policy.name,
        model=plan.model,
        optimizers=update.optimizers,
        loss=plan.loss,
        loss_is=plan.loss_is,
        weight=plan.weight_of,
        counts=plan.weight is None,
        clip=None if isinstance(plan.clip, NoClip) else plan.clip,
        attempt=lambda window: _attempted(update, window),
        scale=lambda: update.scale.value,
        names=plan.store.names,
        in_float32=update.in_float32,
        kept=lambda: undone(update),
    )


def subject_of_step(
    step: Callable[[list[Any]], object],
    *,
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    loss: Callable[[Any, Any], Loss],
    loss_is: LossIs = "mean",
    weight: Callable[[Any], Any] | None = None,
    clip: Clip | None = None,
    scale: Any = None,
) -> Subject:
    """A loop of one's own: what `step` closes over beside model and optimizers is not seen, hence not put back."""
    demand_model(model)
    optimizers = (optimizer,) if isinstance(optimizer, Optimizer) else tuple(optimizer)
    demand_optimizers(optimizers)
    for name, function in (("loss", loss), ("weight", weight)):
        if not callable(function) and not (function is None and name == "weight"):
            raise UsageError(f"{name}={function!r} cannot be called", hint=f"{name} is a function; see truestep.verify")
    if not any(p.requires_grad for p in parameters_of(*optimizers)):
        raise OptimizerError("the optimizer holds no parameter that takes a gradient", hint="look for requires_grad=False")

    def attempt(window: list[Any]) -> None:
        step(window)  # what it returns is its own affair: whether it stepped is seen at the optimizer

    return Subject(
        title=getattr(step, "__qualname__", type(step).__name__),
        policy=None,
        model=model,
        optimizers=optimizers,
        loss=loss,
        loss_is=loss_is,
        weight=lambda microbatch: weight_of(examples_of(microbatch) if weight is None else weight(microbatch)),
        counts=weight is None,
        clip=None if clip is None else clip_of(clip),
        attempt=attempt,
        scale=scale_reader(scale),
        names=lambda: names_of(model, *optimizers),
        in_float32=nullcontext,
        kept=lambda: put_back(model, optimizers),
    )


def scale_reader(scale: Any) -> Scale:
    """What tells the loss scale of a hand-written loop: a number, a GradScaler, or a function that returns one.

    >>> scale_reader(1024)(), scale_reader(None)(), scale_reader(lambda: 8.0)()
    (1024.0, None, 8.0)
    """
    if scale is None:
        return lambda: None
    if hasattr(scale, "get_scale"):
        return lambda: float(scale.get_scale())
    if callable(scale):
        return lambda: float(scale())
    try:
        value = float(scale)
    except (TypeError, ValueError):
        raise UsageError(
            f"scale={scale!r} is no loss scale", hint="give the GradScaler itself, a number, or a function that returns it"
        ) from None
    return lambda: value


def _attempted(update: Update[Any], window: list[Any]) -> str | None:
    try:
        skip = update(window).skip
    except SkipLimitError as error:
        skip = error.facts["outcome"].skip
    return None if skip is None else f"{skip.reason}: {skip.detail}"
