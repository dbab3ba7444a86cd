"""A closure under a loss scaler, which has no place for one."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import StepCalled
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import on

NEEDS_ONE = frozenset({"LBFGS"})
"""Optimizers that step by calling a closure again and again."""


def check(story: Story) -> Iterator[Finding]:
    """`scaler.step` with a closure, or of an optimizer that cannot do without one, by a scaler that is on."""
    for event in story.of(StepCalled):
        made = story.optimizers.get(event.optimizer)
        needs = made is not None and made.kind in NEEDS_ONE
        if not on(story, event.scaler) or not (event.closure or needs):
            continue
        what = (
            "a closure was given to scaler.step: the gradients it leaves are never unscaled nor asked whether they are finite"
            if event.closure
            else f"{'' if made is None else made.kind} needs a closure, which a scaler that is on cannot pass it"
        )
        yield found(
            event.site,
            what + "; torch refuses it by keyword, and by position it runs and is wrong",
            fix="step such an optimizer without a scaler, in float32 or bfloat16; for others leave the closure out",
        )


RULE = Rule(
    id="closure",
    title="a closure is given to the loss scaler",
    why="The optimizer calls the closure itself, after the scaler has looked at the gradients: it steps with scaled ones.",
    bad="scaler.step(optimizer, closure)",
    good="loss = closure()\nscaler.step(optimizer)\nscaler.update()",
    sources=("https://github.com/pfnet/pytorch-pfn-extras/issues/636", "https://github.com/skorch-dev/skorch/pull/826"),
    check=check,
)
