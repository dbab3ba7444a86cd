"""Which of the lines that led to something stands beside the step: the line of the loop, not of the helper that it calls."""

from __future__ import annotations

from collections.abc import Iterable

from truestep.audit.events import Stepped
from truestep.audit.site import Place, Site
from truestep.audit.story import Story


def lines(site: Site | None) -> tuple[Place, ...]:
    """A site's own line, then those that led there, innermost first."""
    return () if site is None else (site.place, *site.callers)


def beside(site: Site | None, other: Site | None) -> Site | None:
    """`site`, seen from the innermost function that also led to `other`; `site` itself where there is none."""
    if site is None:
        return None
    functions = {(place.path, place.function) for place in lines(other)}
    places = lines(site)
    for index, place in enumerate(places):
        if (place.path, place.function) in functions:
            return Site(place=place, callers=places[index + 1 :], library=site.library if index == 0 else None)
    return site


def last_step(story: Story, order: int, optimizer: int | None = None) -> Stepped | None:
    """The last attempt before `order`, of one optimizer or of any."""
    before = [each for each in story.of(Stepped) if each.order < order and optimizer in (None, each.optimizer)]
    return before[-1] if before else None


def middle(values: Iterable[int]) -> int:
    """The lower median; 0 of nothing."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0
