"""Gradients of float16 regions that never carried a loss scale."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.beside import companion
from truestep.audit.events import Autocast, Backward, Edited
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.rules.device_mismatch import switched_off
from truestep.audit.site import Place
from truestep.audit.story import Story, Window
from truestep.audit.windows import shortened, unscales

OWN = 0.5
"""Up to this an edit that keeps the direction is the unscaling of a script that scales its loss itself."""


def check(story: Story) -> Iterator[Finding]:
    """By line: backwards of float16 regions without a scale, whose gradients were stepped."""
    if any(event.enabled and event.outer not in (None, event.dtype) for event in story.of(Autocast)):
        return  # the format of a region inside of another: nested-autocast
    seen: dict[Place | None, list[Backward]] = {}
    for window in story.windows:
        if window.step is None or window.step.finite is None or not window.step.completed or _own_scale(window):
            continue  # or it was not looked at
        if any(unscaled.scale != 1.0 for unscaled in unscales(window)):
            continue  # divided by a scale that it does not carry: backward-not-scaled
        for backward in window.used:
            if backward.low == "float16" and backward.scale == 1.0 and not _known(story, backward):
                seen.setdefault(None if backward.site is None else backward.site.place, []).append(backward)
    for backwards in seen.values():
        zeros = [event.zeros for event in backwards if event.zeros is not None]
        yield found(
            backwards[0].site,
            "gradients of a float16 region went into the step without a loss scale: below 6e-08 they are zero",
            severity="warning",
            evidence=(f"{max(zeros):.1%} of the gradients' elements are zero at most, {min(zeros):.1%} at least",)
            if zeros
            else (),
            fix="use torch.amp.GradScaler, or bfloat16",
            times=len(backwards),
        )
        off = next((made for made in story.scalers.values() if made.scaler == backwards[0].scaler and not made.enabled), None)
        yield from companion(backwards[0].site, None if off is None else off.site, "here its scaler was made switched off")


def _known(story: Story, backward: Backward) -> bool:
    """A scaler is behind it that is off by mistake, which has a rule of its own, or on at a scale of 1."""
    made = None if backward.scaler is None else story.scalers.get(backward.scaler)
    if backward.scaler is None:
        return False
    return made is None or made.enabled or switched_off(story, made)


def _own_scale(window: Window) -> bool:
    edits = [event for event in window.of(Edited) if isinstance(event, Edited)]
    return any(shortened(event) and (event.ratio or 1.0) <= OWN for event in edits)


RULE = Rule(
    id="fp16-without-scaler",
    title="float16 gradients without a loss scale",
    why="Half of what a network's gradients hold may lie below float16's smallest number: those weights silently stop learning.",
    bad="with torch.autocast('cuda', dtype=torch.float16):\n    loss = model(x).mean()\nloss.backward()\noptimizer.step()",
    good=(
        "with torch.autocast('cuda', dtype=torch.float16):\n    loss = model(x).mean()\nscaler.scale(loss).backward()\n"
        "scaler.step(optimizer)\nscaler.update()"
    ),
    sources=("Micikevicius et al., Mixed Precision Training, 2018, section 3.2", "https://github.com/karpathy/nanoGPT/pull/481"),
    check=check,
)
