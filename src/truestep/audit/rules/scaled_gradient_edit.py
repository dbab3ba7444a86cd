"""Gradients changed by hand in original units while they carry the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Edited
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Place
from truestep.audit.story import Story
from truestep.audit.windows import clips_by_hand, damage_of


def check(story: Story) -> Iterator[Finding]:
    """By line: edits that an unscaling does not commute with, made before it."""
    seen: set[Place] = set()
    for window in story.windows:
        for event in window.of(Edited):
            if not isinstance(event, Edited) or event.site is None or event.site.place in seen:
                continue
            if event.carried == 1.0 or event.commutes is not False or event.hid or event.reduced or clips_by_hand(event):
                continue  # clip-before-unscale names clips
            if story.sources.derives_from(event.site, None, "get_scale"):
                continue
            seen.add(event.site.place)
            yield found(
                event.site,
                _words(event),
                severity="warning" if event.ratio == 1.0 else "error",
                evidence=() if event.ratio is None else (f"the gradients' norm became {event.ratio:.4g} times what it was",),
                damage=damage_of([window]),
                fix="call scaler.unscale_(optimizer) right before it",
            )


def _words(event: Edited) -> str:
    carried = f"gradients that still carry the loss scale ({event.carried:g})"
    if event.reshapes:
        return (
            f"`{event.operation}` multiplied {carried} by something that was made of them and is not in their units: the step"
            " gets another gradient than the same edit makes after the unscaling"
        )
    return (
        f"`{event.operation}` wrote into {carried} something in other units: after the unscaling it counts 1/{event.carried:g}"
        " of what it should"
    )


RULE = Rule(
    id="scaled-gradient-edit",
    title="gradients are changed while they carry the loss scale",
    why="Noise, decay or a penalty that is added to scaled gradients is divided by the scale with them: next to nothing is"
    " left of it.",
    bad="scaler.scale(loss).backward()\nfor p in model.parameters():\n    p.grad.add_(p, alpha=0.01)\nscaler.step(optimizer)",
    good="scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\nfor p in model.parameters():\n    p.grad.add_(p,"
    " alpha=0.01)\nscaler.step(optimizer)",
    sources=("PyTorch, Automatic Mixed Precision examples: Working with unscaled gradients",),
    check=check,
)
