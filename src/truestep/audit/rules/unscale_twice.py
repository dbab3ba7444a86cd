"""Dividing gradients by the loss scale more than once."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Edited, Raised, Stepped, Unscaled
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story, Window
from truestep.audit.windows import after_used, close, damage_of, gradients_of, on, shortened, unscaled_by_hand, unscales, updates


def check(story: Story) -> Iterator[Finding]:
    """Two unscalings after the last backward: by the scaler, by hand, or one of each."""
    crashed = any("unscale_() has already been called" in each.text for each in story.of(Raised))
    if crashed and len(story.of(Unscaled)) > 1:
        first, second = story.of(Unscaled)[-2:]
        yield found(
            second.site,
            f"scaler.unscale_(optimizer) was called twice with no scaler.update() between: first at {first.site}, then here,"
            " which torch refuses",
            fix="unscale once per window, after its last backward; log and clip from the same gradients",
        )
        return
    for window in story.windows:
        yield from _by_scaler(story, window)
        yield from _by_hand(story, window)
        yield from _by_hand_too(window)


def _last_backward(window: Window) -> int:
    return window.backwards[-1].order if window.backwards else -1


def _by_scaler(story: Story, window: Window) -> Iterator[Finding]:
    late = [event for event in unscales(window) if event.order > _last_backward(window) and on(story, event.scaler)]
    if len(late) < 2:
        return
    first, second = late[:2]
    moved = [event for event in updates(window) if first.order < event.order < second.order]
    if moved and any(event.order < moved[0].order for event in window.events if isinstance(event, Stepped)):
        return  # between two optimizers' steps: multi-optimizer-one-scaler
    if moved:  # update() forgets that the gradients are unscaled already
        site, words = moved[0].site, "scaler.update() ran between unscale_ and step, which therefore unscaled once more"
    else:
        site, words = second.site, "scaler.unscale_(optimizer) was called twice in one window"
    yield found(
        site,
        f"{words}: first at {first.site}, then at {second.site}",
        evidence=gradients_of([window]),
        damage=damage_of([window]),
        fix="unscale once, after the last backward; log and clip from the same gradients",
    )


def _by_hand(story: Story, window: Window) -> Iterator[Finding]:
    edits = [event for event in after_used(window, window.of(Edited)) if isinstance(event, Edited) and unscaled_by_hand(event)]
    if not edits or window.step is None:
        return
    again = [event for event in window.after(edits[0], Unscaled) if on(story, event.scaler)]
    judged = window.step.judged
    fused = (
        judged is not None
        and window.step.fused
        and window.step.scaler is not None
        and close(judged.ratio * edits[0].carried, 1.0)
    )
    if again or fused:
        yield found(
            edits[0].site,
            f"the gradients were divided by the loss scale ({edits[0].carried:g}) by hand, and then by the scaler's step",
            evidence=gradients_of([window]),
            damage=damage_of([window]),
            fix="use scaler.unscale_(optimizer), which the step knows of",
        )


def _by_hand_too(window: Window) -> Iterator[Finding]:
    """The script divided by the scale what its unscale_ had divided already, unless that number is the microbatches'."""
    first = next((event for event in unscales(window) if event.order > _last_backward(window)), None)
    if first is None or first.scale in (1.0, len(window.used)):
        return
    edits = (each for each in window.after(first, Edited) if shortened(each))
    again = next((each for each in edits if close((each.ratio or 0.0) * first.scale, 1.0)), None)
    if again is not None:
        yield found(
            again.site,
            f"the gradients were divided by the loss scale ({first.scale:g}) by hand, and unscale_ had done so at {first.site}",
            evidence=gradients_of([window]),
            damage=damage_of([window]),
            fix="unscale once: what comes after unscale_ sees gradients in original units",
        )


RULE = Rule(
    id="unscale-twice",
    title="gradients are unscaled twice",
    why="The update becomes as many times too small as the loss scale is large; called twice, unscale_ raises.",
    bad="for p in model.parameters():\n    p.grad /= scaler.get_scale()\nscaler.step(optimizer)",
    good="scaler.unscale_(optimizer)\nscaler.step(optimizer)",
    sources=(
        "https://github.com/huggingface/transformers/issues/23935",
        "https://github.com/huggingface/transformers/issues/24449",
    ),
    check=check,
)
