"""Stepping through a scaler that is never told to move."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Raised, StepCalled, Unscaled, Updated
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import on


def check(story: Story) -> Iterator[Finding]:
    """A scaler's step, and no update before the same optimizer is stepped, or its gradients unscaled, again."""
    waiting: dict[int, StepCalled] = {}
    for event in story.events:
        if isinstance(event, Updated):
            waiting = {optimizer: step for optimizer, step in waiting.items() if step.scaler != event.scaler}
        elif isinstance(event, (StepCalled, Unscaled)) and on(story, event.scaler):
            before = waiting.get(event.optimizer)
            if before is not None and (isinstance(event, StepCalled) or not event.inside):
                yield _found(story, event, before)
                return
            if isinstance(event, StepCalled):
                waiting[event.optimizer] = event


def _found(story: Story, event: StepCalled | Unscaled, before: StepCalled) -> Finding:
    again = "scaler.step(optimizer) ran a second time" if isinstance(event, StepCalled) else "unscale_ ran for the next window"
    if event.scaler != before.scaler:
        again += ", through a new scaler,"
    raised = any("step()" in each.text and "called" in each.text for each in story.of(Raised))
    return found(
        before.site,
        f"{again} with no scaler.update() since this step" + (", which torch refuses" if raised else ""),
        fix="call scaler.update() once, after the last step of each window",
    )


RULE = Rule(
    id="missing-update",
    title="scaler.update() is never called",
    why="The scale cannot grow or back off, and an overflow would repeat for ever; torch raises at the second step.",
    bad="scaler.scale(loss).backward()\nscaler.step(optimizer)",
    good="scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    sources=("https://github.com/Azure/MS-AMP/pull/45", "https://github.com/HorizonRobotics/alf/pull/1770"),
    check=check,
)
