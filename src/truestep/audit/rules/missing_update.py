"""Stepping through a scaler that is never told to move."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Raised, StepCalled, Updated
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.windows import on
from truestep.audit.story import Story


def check(story: Story) -> Iterator[Finding]:
    """A second `scaler.step` of an optimizer without an `update` since the first."""
    waiting: dict[tuple[int, int], StepCalled] = {}
    for event in story.events:
        if isinstance(event, Updated):
            waiting = {key: step for key, step in waiting.items() if key[0] != event.scaler}
        elif isinstance(event, StepCalled) and on(story, event.scaler):
            key = (event.scaler, event.optimizer)
            if key in waiting:
                raised = any("step() has already been called" in each.text for each in story.of(Raised))
                yield found(
                    event.site,
                    f"scaler.step(optimizer) ran a second time with no scaler.update() since {waiting[key].site}"
                    + (", which torch refuses" if raised else ""),
                    fix="call scaler.update() once, after the last step of each window",
                )
                return
            waiting[key] = event


RULE = Rule(
    id="missing-update",
    title="scaler.update() is never called",
    why="The scale cannot grow or back off, and an overflow would repeat for ever; torch raises at the second step.",
    bad="scaler.scale(loss).backward()\nscaler.step(optimizer)",
    good="scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    sources=("https://github.com/Azure/MS-AMP/pull/45", "https://github.com/HorizonRobotics/alf/pull/1770"),
    check=check,
)
