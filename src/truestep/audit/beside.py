"""Which of the lines that led to something stands beside the step: the line of the loop, not of the helper that it calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from truestep.audit.events import Stepped
from truestep.audit.finding import Finding, found
from truestep.audit.site import Place, Site
from truestep.audit.story import Story


def lines(site: Site | None) -> tuple[Place, ...]:
    """A site's own line, then those that led there, innermost first."""
    return () if site is None else (site.place, *site.callers)


def beside(site: Site | None, other: Site | None) -> Site | None:
    """`site`, seen from the innermost function that also led to `other`; `site` itself where there is none.

    Where a library called the lines that led to it, the outermost of those at most: what lies above led to the whole loop.
    """
    if site is None:
        return None
    functions = {(place.path, place.function) for place in lines(other)}
    places = lines(site)
    for index, place in enumerate(places):
        if (place.path, place.function) in functions or index + 1 == site.below_library:
            return Site(place=place, callers=places[index + 1 :], library=site.library if index == 0 else None)
    return site


def companion(main: Site | None, other: Site | None, words: str) -> Iterator[Finding]:
    """A note at a second line that has a part in a finding at `main`; none where it is the same one, or a library's."""
    if (
        other is None
        or other.library is not None
        or (main is not None and other.place.line == main.place.line and other.path == main.path)
    ):
        return
    yield found(other, words, severity="note")


def last_step(story: Story, order: int, optimizer: int | None = None) -> Stepped | None:
    """The last attempt before `order`, of one optimizer or of any."""
    before = [each for each in story.of(Stepped) if each.order < order and optimizer in (None, each.optimizer)]
    return before[-1] if before else None


def middle(values: Iterable[int]) -> int:
    """The lower median; 0 of nothing."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0
