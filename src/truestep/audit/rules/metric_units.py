"""Numbers in units of the loss scale, taken for gradients or losses: in logs, limits and decisions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from truestep.audit.beside import companion, lines
from truestep.audit.events import Clipped, Edited, GradientRead, PenaltyInScaledUnits
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Place
from truestep.audit.story import Story
from truestep.audit.windows import clips_by_hand

FINITE = ("isfinite", "isnan", "isinf")
"""Tests that the scale does not change."""


def check(story: Story) -> Iterator[Finding]:
    """By line: numbers that left the tensors while they carried a scale, and that nothing divides later."""
    lines: dict[Place, list[GradientRead]] = {}
    for event in story.of(GradientRead):
        site = event.made or event.site
        if site is not None and math.isfinite(event.value):
            lines.setdefault(site.place, []).append(event)
    for events in lines.values():
        first = events[0]
        if _explained(story, first):
            continue
        what = {"loss": "the loss", "clip": "the gradient norm", "penalty": "a number made of gradients"}.get(
            first.of, "a number made of gradients"
        )
        yield found(
            first.made or first.site,
            f"{what} was read as {first.value:.4g} while it is multiplied by {first.carried:g}: in original units it is"
            f" {first.value / first.carried:.4g}",
            severity="warning",
            evidence=(f"read {len(events)} times, at {len({event.carried for event in events})} scales",),
            fix="read the loss before it is scaled"
            if first.of == "loss"
            else "read it after scaler.unscale_(optimizer), or divide it by scaler.get_scale()",
            times=len(events),
        )
        if first.made is not None:
            yield from companion(first.made, first.site, "here that number left the tensors, in units of the loss scale")


def _explained(story: Story, event: GradientRead) -> bool:
    if event.of == "penalty" and story.of(PenaltyInScaledUnits):
        return True
    if _bounded(story, event) if event.of == "clip" else _clips_with(story, event):  # clip-before-unscale names it
        return True
    site = event.site
    if site is None:
        return False
    asks = any(word in (story.sources.statement(site.place) or "") for word in FINITE)
    return asks or story.sources.derives_from(site, None, "get_scale") or story.sources.later_unscaled(site)


def _bounded(story: Story, event: GradientRead) -> bool:
    clips = [
        each
        for each in story.of(Clipped)
        if event.made is not None and each.site is not None and each.site.place == event.made.place
    ]
    return any(each.limit is not None and math.isfinite(each.limit) for each in clips)


def _clips_with(story: Story, event: GradientRead) -> bool:
    """Whether the next edit of gradients is a clip by hand, made in the same function while they carry the scale."""
    edit = next((each for each in story.of(Edited) if each.order > event.order), None)
    if event.of != "gradient" or edit is None or edit.carried == 1.0 or not clips_by_hand(edit):
        return False
    functions = {(place.path, place.function) for place in lines(event.site)}
    return any((place.path, place.function) in functions for place in lines(edit.site))


RULE = Rule(
    id="metric-units",
    title="a number is read in units of the loss scale",
    why="The logged norm is 65536 times the real one and jumps whenever the scale moves: a spike detector or a limit set by"
    " it is wrong.",
    bad="scaler.scale(loss).backward()\nlog(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())",
    good="scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\nlog(torch.stack([p.grad.norm() for p in"
    " model.parameters()]).norm().item())",
    sources=(
        "https://github.com/languini-kitchen/languini-kitchen/pull/7",
        "https://github.com/deepspeedai/DeepSpeed/issues/2686",
    ),
    check=check,
)
