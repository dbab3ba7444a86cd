"""Clearing gradients at the wrong place, or never."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Backward, Raised, Stepped, Zeroed
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story, Window
from truestep.audit.windows import damage_of, gradients_of, left_behind

AGREES = 0.01
"""Relative difference of a gradient up to which its damage is not measured."""


def check(story: Story) -> Iterator[Finding]:
    """Gradients cleared before a step used them, and gradients that a step used and the next window still holds."""
    for window in story.windows:
        yield from _cleared(story, window)
        yield from _kept(story, window)
        yield from _anothers(window)
        yield from _elsewhere(window)


def _cleared(story: Story, window: Window) -> Iterator[Finding]:
    lost = {number for zero in window.of(Zeroed) if zero.weights_moved is False for number in zero.dropped} - story.used_by_any
    gone = [backward for backward in window.backwards if backward.number in lost]
    zeros = [zero for zero in window.of(Zeroed) if lost & set(zero.dropped)]
    if not gone or not zeros:
        return
    if window.step is None and not any(
        "No inf checks were recorded for this optimizer" in each.text for each in story.of(Raised)
    ):
        return
    if not window.used and zeros[-1].order > gone[-1].order:
        yield found(
            zeros[-1].site,
            "the gradients were cleared between backward and the step, which got none of them",
            fix="clear them after the step, or before the window's first backward",
        )
    elif _alike(gone, window.used) and _too_light(window):
        number = len(gone) + len(window.used)
        yield found(
            zeros[-1].site,
            f"the gradients were cleared inside an open window: of {number} microbatches only the last"
            f" {len(window.used)} reached the"
            f" step, with the weight of {len(window.used)} in {number}",
            evidence=gradients_of([window]),
            damage=damage_of([window]),
            fix="clear them once per window: before its first backward, or after the step",
        )


def _alike(gone: list[Backward], used: tuple[Backward, ...]) -> bool:
    """All were made by one line."""
    return len({None if each.site is None else each.site.place for each in (*gone, *used)}) == 1


def _too_light(window: Window) -> bool:
    """The loss was divided by more than what is left, or that cannot be told."""
    shares = [backward.share for backward in window.used]
    total = sum(share.weight * share.elements for share in shares if share is not None)
    return None in shares or total < 0.99


def _kept(story: Story, window: Window) -> Iterator[Finding]:
    first = window.used[0] if window.used else None
    before = [other for other in story.windows_of(window.optimizer) if other.number == window.number - 1]
    if first is None or window.optimizer not in first.kept or not before or before[0].step is None or window.step is None:
        return
    if before[0].step.closure or window.step.closure or not before[0].step.backwards:
        return
    partly = first.zeroed is not None
    yield found(
        first.zeroed if partly else first.site,
        "the gradients of the step before were cleared only in part: what was left was added to"
        if partly
        else f"the gradients of the step before ({before[0].step.site}) were never cleared: this backward was added to them",
        evidence=gradients_of([window]),
        damage=damage_of([window]) or _small(window),
        fix="call optimizer.zero_grad() after the step",
    )


def _elsewhere(window: Window) -> Iterator[Finding]:
    """A backward added to what one before the weights moved had left, as the first of a sharpness-aware step."""
    pair = left_behind(window)
    if pair is not None:
        before, backward = pair
        yield found(
            backward.site,
            f"all weights were moved after the backward at {before.site}, whose gradients were never cleared: this one, made"
            " elsewhere, was added to them",
            severity="warning",
            evidence=gradients_of([window]),
            damage=damage_of([window]),
            fix="call zero_grad() between the two: before the backward at the weights that were moved",
        )


def _small(window: Window) -> str | None:
    """The damage where a scaler had divided what was left once more, so that it hardly counts."""
    judged, scale = None if window.step is None else window.step.judged, window.used[0].scale
    if judged is None or scale == 1.0 or not judged.agrees(AGREES):
        return None
    return (
        f"hardly any in that window, whose gradient is {judged.ratio:.6g} times as long as the right one: what was left had been"
        f" divided by the loss scale ({scale:g}) twice; it counts in full without a scaler, and more the smaller the scale is"
    )


def _anothers(window: Window) -> Iterator[Finding]:
    """A backward made for another optimizer, which stepped on it, and whose gradients were still here when the own one came."""
    for backward in window.used[:-1]:
        for step in window.events:
            mine = isinstance(step, Stepped) and step.optimizer != window.optimizer and backward.number in step.backwards
            if _alike([backward], window.used[-1:]):
                continue  # one loss for both, of which this one is stepped less often
            if mine and backward.order < step.order < window.used[-1].order:
                yield found(
                    backward.site,
                    f"this backward was made for another optimizer, which stepped on it at {step.site}; its"
                    " gradients stayed in the"
                    " parameters of this one, and went into its next step",
                    severity="warning",
                    evidence=gradients_of([window]),
                    damage=damage_of([window]),
                    fix="clear this optimizer's gradients right before its own backward",
                )
                return


RULE = Rule(
    id="zero-grad-placement",
    title="gradients are cleared at the wrong place, or never",
    why=(
        "Cleared in each microbatch, all but the last are lost while the divisor stays; never cleared, old gradients"
        " are stepped again."
    ),
    bad="for x in window:\n    optimizer.zero_grad()\n    (loss_of(x) / len(window)).backward()\noptimizer.step()",
    good="optimizer.zero_grad()\nfor x in window:\n    (loss_of(x) / len(window)).backward()\noptimizer.step()",
    sources=("https://github.com/huggingface/accelerate/issues/1299", "https://github.com/meta-pytorch/opacus/issues/93"),
    check=check,
)
