"""Gradients changed by hand in original units while they carry the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Edited
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Place
from truestep.audit.story import Story
from truestep.audit.windows import damage_of

CLIPS = ("clamp", "clip")


def check(story: Story) -> Iterator[Finding]:
    """By line: edits that an unscaling does not commute with, made before it."""
    seen: set[Place] = set()
    for window in story.windows:
        for event in window.of(Edited):
            if not isinstance(event, Edited) or event.site is None or event.site.place in seen:
                continue
            if (
                event.carried == 1.0
                or event.commutes is not False
                or event.hid
                or event.reduced
                or event.operation.startswith(CLIPS)
            ):
                continue
            if story.sources.derives_from(event.site, None, "get_scale"):
                continue
            seen.add(event.site.place)
            yield found(
                event.site,
                f"`{event.operation}` wrote into gradients that still carry the loss scale ({event.carried:g}) something in"
                f" other units:"
                f" after the unscaling it counts 1/{event.carried:g} of what it should",
                evidence=() if event.ratio is None else (f"the gradients' norm became {event.ratio:.4g} times what it was",),
                damage=damage_of([window]),
                fix="call scaler.unscale_(optimizer) right before it",
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
