"""A backward without the loss scale among scaled ones, or in front of a scaler's step."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Backward, GradientTaken, Raised, Unscaled
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story, Window
from truestep.audit.windows import damage_of, gradients_of, on


def check(story: Story) -> Iterator[Finding]:
    """A used backward whose root did not go through the scaler that unscales its gradients, wholly or in part."""
    yield from _crashed(story)
    for window in story.windows:
        yield from _taken(story, window)
        unscale = _unscaled_by(story, window)
        if unscale is None:
            continue
        for backward in window.used:
            if backward.carried == "all" or backward.order > unscale.order:
                continue
            part = "a part of the loss" if backward.carried == "part" else "the loss"
            yield found(
                backward.site,
                f"{part} went into backward without the loss scale, and its gradients were divided by"
                f" {unscale.scale:g} all the same",
                evidence=gradients_of([window]),
                damage=damage_of([window]),
                fix="scaler.scale(loss).backward(), for every loss of the window",
            )


def _crashed(story: Story) -> Iterator[Finding]:
    """No loss ever went through the scaler, whose step does not know its scale then."""
    if any("_scale is None" in each.text for each in story.of(Raised)) and story.of(Backward):
        yield found(
            story.of(Backward)[-1].site,
            "the loss went into backward without the loss scale, and scaler.step(optimizer) has nothing to divide by",
            fix="scaler.scale(loss).backward()",
        )


def _taken(story: Story, window: Window) -> Iterator[Finding]:
    """Gradients taken by autograd.grad, some of a scaled loss and some not, that one step used together."""
    taken = [event for event in window.of(GradientTaken) if event.of_parameters and not event.create_graph]
    scaled = [event for event in taken if event.scale != 1.0]
    plain = [event for event in taken if event.scale == 1.0]
    if window.step is None or window.step.scaler is None or window.used or not scaled or not plain:
        return
    yield found(
        plain[0].site,
        f"gradients of an unscaled loss were taken beside those of a loss scaled by {scaled[0].scale:g}, and divided with them",
        damage=damage_of([window]),
        fix="torch.autograd.grad(scaler.scale(loss), ...), for every loss of the window",
    )


def _unscaled_by(story: Story, window: Window) -> Unscaled | None:
    """The scaler's division; none by 1."""
    last = window.used[-1].order if window.used else -1
    late = [event for event in window.of(Unscaled) if event.order > last and on(story, event.scaler) and event.scale != 1.0]
    if late or window.step is None or not window.step.fused or not on(story, window.step.scaler) or not window.used:
        return late[0] if late else None
    scales = [event.scale for event in window.used if event.scale != 1.0]
    made = story.scalers.get(window.step.scaler or 0)
    scale = scales[0] if scales else (made.scale if made else 1.0)
    return Unscaled(
        order=window.step.order,
        site=None,
        scaler=window.step.scaler or 0,
        optimizer=window.optimizer,
        scale=scale,
        found_inf=False,
        inside=True,
    )


RULE = Rule(
    id="backward-not-scaled",
    title="a backward lacks the loss scale",
    why="What was never multiplied is divided all the same: that loss counts as many times too little as the scale is large.",
    bad="scaler.scale(main).backward(retain_graph=True)\naux.backward()\nscaler.step(optimizer)",
    good="scaler.scale(main + aux).backward()\nscaler.step(optimizer)",
    sources=("https://github.com/Lightning-AI/pytorch-lightning/issues/4148", "https://github.com/NVIDIA/apex/issues/929"),
    check=check,
)
