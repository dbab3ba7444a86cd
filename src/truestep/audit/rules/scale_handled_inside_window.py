"""Unscaling, or moving the loss scale, while a window of several backwards is still open."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Raised, Unscaled
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import between_used, damage_of, gradients_of, on, unscales, updates


def check(story: Story) -> Iterator[Finding]:
    """An unscaling between two backwards of one window, or an update there that moved the scale."""
    crash = next((each for each in story.of(Raised) if "No inf checks were recorded prior to update" in each.text), None)
    if crash is not None and any(window.step is None for window in story.windows):
        yield found(
            crash.site,
            "scaler.update() ran in an open window, before anything was unscaled or stepped, which torch refuses",
            fix="call scaler.update() once per window, after scaler.step(optimizer)",
        )
    for window in story.windows:
        opened = [
            event for event in between_used(window, unscales(window)) if isinstance(event, Unscaled) and on(story, event.scaler)
        ]
        moved = [
            event for event in updates(window) if event in between_used(window, updates(window)) and event.before != event.after
        ]
        if not opened and not moved:
            continue
        first = opened[0] if opened else moved[0]
        what = (
            f"unscale_ ran inside an open window of {len(window.used)} backwards: gradients already divided by"
            " the scale are mixed with"
            " scaled ones and divided again"
            if opened
            else f"the loss scale moved from {moved[0].before:g} to {moved[0].after:g} inside an open window of"
            f" {len(window.used)}"
            " backwards: gradients of two scales were added and divided by one"
        )
        yield found(
            first.site,
            what,
            evidence=gradients_of([window]),
            damage=damage_of([window]),
            fix="unscale, step and update once, after the last backward of the window",
        )


RULE = Rule(
    id="scale-handled-inside-window",
    title="the loss scale is handled while gradients accumulate",
    why=(
        "Only gradients of one scale can be added: the others arrive as many times too small as the scale, or a power of two off."
    ),
    bad=(
        "for x in window:\n    scaler.scale(loss_of(x)).backward()\n    scaler.unscale_(optimizer)\n   "
        " scaler.update()\nscaler.step(optimizer)"
    ),
    good=(
        "for x in window:\n   "
        " scaler.scale(loss_of(x)).backward()\nscaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()"
    ),
    sources=("https://github.com/huggingface/accelerate/issues/641", "https://github.com/pytorch/pytorch/pull/36601"),
    check=check,
)
