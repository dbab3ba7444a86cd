"""A new loss scaler where the old one should have gone on."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Restored, ScalerMade, Stepped, Updated
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import on


def check(story: Story) -> Iterator[Finding]:
    """One line makes scaler after scaler, and an optimizer steps through one and then through the next."""
    before: dict[int, Stepped] = {}
    for step in story.of(Stepped):
        if step.scaler is None or not on(story, step.scaler):
            continue
        old = before.get(step.optimizer)
        before[step.optimizer] = step
        if old is None or old.scaler is None or old.scaler == step.scaler:
            continue
        first, second = story.scalers.get(old.scaler), story.scalers.get(step.scaler)
        if (
            first is None
            or second is None
            or not _same_line(first, second)
            or not old.order < second.order
            or _goes_on(story, second)
        ):
            continue
        left = next((event.after for event in reversed(story.of(Updated)) if event.scaler == old.scaler), first.scale)
        lost = sum(not each.completed for each in story.of(Stepped) if each.optimizer == step.optimizer)
        yield found(
            second.site,
            f"a new scaler was made for an optimizer that had one: the scale, {left:g} by then, starts at {second.scale:g} again"
            if left != second.scale
            else "a new scaler was made for an optimizer that had one: what it had learned of the scale is forgotten",
            severity="error" if left != second.scale else "warning",
            evidence=(f"{lost} of {story.totals.attempts.get(step.optimizer, 0)} attempts were skipped",) if lost else (),
            fix="make the scaler once, before the loop",
        )


def _same_line(first: ScalerMade, second: ScalerMade) -> bool:
    return first.site is not None and second.site is not None and first.site.place == second.site.place


def _goes_on(story: Story, made: ScalerMade) -> bool:
    """It was given the old one's state, or scale."""
    restored = any(event.what == "scaler" and event.which == made.scaler for event in story.of(Restored))
    return restored or (made.site is not None and story.sources.derives_from(made.site, "init_scale", "get_scale"))


RULE = Rule(
    id="scaler-recreated",
    title="the loss scaler is made anew while training goes on",
    why=(
        "Every new scaler starts at its first scale: the same overflows are skipped again, or the scale never grows"
        " to where it should be."
    ),
    bad=(
        "def train_step(batch):\n    scaler = torch.amp.GradScaler()\n    scaler.scale(loss_of(batch)).backward()\n "
        "   scaler.step(optimizer)"
    ),
    good=(
        "scaler = torch.amp.GradScaler()\nfor batch in loader:\n    scaler.scale(loss_of(batch)).backward()\n   "
        " scaler.step(optimizer)"
    ),
    sources=("https://github.com/pytorch/pytorch/blob/main/docs/source/notes/amp_examples.rst",),
    check=check,
)
