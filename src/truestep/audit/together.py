"""What rules ask of attempts that several ranks make together: how their gradients became one, and who decided."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from truestep.audit.events import Backward, Clipped, Event, Ranks, Reduced
from truestep.audit.reading.flow import Item
from truestep.audit.reading.syncs import decider
from truestep.audit.site import Place, Site
from truestep.audit.story import Story, Window
from truestep.audit.windows import after_used, close

TOLERANCE = 0.01
"""Relative difference of two norms that are the same but for rounding and the epsilon of a clip."""


def attempt(story: Story, told: Ranks) -> Window | None:
    """The window of the attempt that the ranks made differently; None where this rank has none."""
    windows = story.windows_of(told.optimizer)
    return next((each for each in windows if each.step is not None and each.step.backwards == told.backwards), None)


def reductions(window: Window) -> list[Reduced]:
    """By hand, of gradients, after the last backward: those before it are not of the whole window."""
    return [event for event in after_used(window, window.of(Reduced)) if isinstance(event, Reduced) and event.what == "gradient"]


def reduced(window: Window) -> bool:
    """Whether anything makes one of the ranks' gradients: DDP, though it be told not to, or a reduction by hand."""
    by_hand = any(event.what == "gradient" for event in window.of(Reduced))
    return by_hand or any(backward.synced is not None for backward in window.used)


def averaged_by(window: Window) -> float | None:
    """What the sum of the ranks' gradients was multiplied by before the step: 1 / ranks where they were averaged, 1 where they
    were added up; None where that cannot be told."""
    used = window.used
    if not used:
        return None
    ranks, by_hand = used[-1].ranks, reductions(window)
    if not by_hand:
        return 1 / ranks if used[-1].synced and window.optimizer not in used[-1].unsynced else None
    judged = None if window.step is None else window.step.judged
    if judged is None or not judged.expected or any(backward.synced is not None for backward in used):
        return None
    if any(event.made is None for event in by_hand):
        return None
    given = math.sqrt(sum(event.given**2 for event in by_hand))
    made = math.sqrt(sum((event.made or 0.0) ** 2 for event in by_hand))
    clipped = math.prod(event.factor or 1.0 for event in window.after(by_hand[-1], Clipped))
    if not made or not clipped:
        return None
    factor = given / judged.expected * judged.observed / clipped / made
    factor /= ranks if by_hand[-1].operation == "avg" else 1
    return next((each for each in (1 / ranks, 1.0) if close(factor, each, TOLERANCE)), None)


def told_not_to(story: Story, backward: Backward) -> Site | None:
    """The line whose expression decided that DDP left this backward's gradients alone; None where nobody told it so."""
    site = backward.unsynced_at
    if site is None or site.library is not None:
        return site
    names = story.sources.names(site.path)
    statement = None if names is None else names.text.at(site.place)
    if names is None or statement is None:
        return site
    item = Item(node=statement, names=names, callers=site.callers or None)
    return Site(place=decider(story.sources.flow, item, site.place), callers=site.callers)


def decided(story: Story, event: Event) -> Site | None:
    """The test that the call at an event's site stands under or behind, the innermost that is no count of microbatches."""
    site = event.site
    for index, place in enumerate(() if site is None else (site.place, *site.callers)):
        names = story.sources.names(place.path)
        if names is None:
            break
        test = next((each for each in names.text.tests(place) if not _counts(each)), None)
        if test is not None and site is not None:
            return Site(place=Place(place.path, test.lineno, place.function), callers=site.callers[index:])
    return site


def _counts(test: ast.expr) -> bool:
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(test))


def several(story: Story) -> Iterator[Window]:
    """The attempts of several ranks' common update, as this rank made them."""
    for window in story.windows:
        if window.step is not None and window.used and window.used[-1].ranks > 1:
            yield window
