"""A gradient that is not the sum of its backwards, for no reason that another rule knows."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Edited
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story, Window
from truestep.audit.windows import ALONG, damage_of, gradients_of

TOLERANCE = 0.01
"""Relative difference of length or direction; a gradient kept in bfloat16 is off by 2^-8 in each addition."""

LOW = 0.05
"""Likewise where parameters are kept in a low precision."""


def check(story: Story) -> Iterator[Finding]:
    """Judged windows whose gradients differ, and in which nobody was seen to write them."""
    for window in story.windows:
        step = window.step
        if step is None or step.judged is None or not step.completed or step.judged.agrees(LOW if step.moved else TOLERANCE):
            continue
        cosine = step.judged.cosine
        longer_or_shorter = cosine is not None and cosine > 1 - ALONG
        if _written(window):
            continue
        yield found(
            step.site,
            f"the gradient that reached the optimizer is {step.judged.ratio:.4g} times as long as the sum of its backwards"
            + ("" if longer_or_shorter else f", and points elsewhere (cosine {cosine:.4f})" if cosine is not None else ""),
            severity="note" if longer_or_shorter else "warning",
            evidence=gradients_of([window]),
            damage=damage_of([window]),
            fix="look at what writes the gradients between the last backward and this step",
        )


def _written(window: Window) -> bool:
    """The script wrote them itself, or did not clear them where zero-grad-placement says it."""
    return bool(window.of(Edited)) or any(window.optimizer in backward.elsewhere for backward in window.used)


RULE = Rule(
    id="unexplained-gradient",
    title="the gradient is not the sum of its backwards",
    why="Something between the last backward and the step changed it, and no call that the audit knows did.",
    bad="loss.backward()\nmodel.weight.grad = torch.from_numpy(edited(model.weight.grad.numpy()))\noptimizer.step()",
    good="loss.backward()\noptimizer.step()",
    sources=("the definition of the update: clip(sum of the window's gradients, each divided by its loss scale)",),
    check=check,
)
