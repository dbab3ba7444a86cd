"""Updates that round away: weights, averages or sums kept in a format too short for what is added to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from truestep.audit.beside import companion, lines
from truestep.audit.events import Averaged, Lost, LowParameters, Stepped
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Site
from truestep.audit.story import Story

NONE_MOVE = 0.1
"""Share of elements that moved, of those that were asked to, up to which nearly none did."""
FEW_MOVE = 0.4
STUCK = 0.25
"""Likewise of an average or a sum, of which some elements are always small."""
ENOUGH = 3
"""Additions that have to agree."""
INSIDE = ("__init__", "<genexpr>", "<listcomp>")
"""Functions that make a module's parts."""
WARM = 0.5
"""Share of the run's highest learning rate from which on an update is no warm-up's."""


def check(story: Story) -> Iterator[Finding]:
    """Weights by optimizer, averages by model, sums by the line that made them."""
    yield from _weights(story)
    yield from _averages(story)
    yield from _sums(story)


def _weights(story: Story) -> Iterator[Finding]:
    for low in story.of(LowParameters):
        steps = [event for event in story.of(Stepped) if event.optimizer == low.optimizer and event.completed]
        most = max((event.lr for event in steps), default=0.0)
        counts = [
            event.moved
            for event in steps
            if event.moved is not None and event.moved.dtype == low.dtype and event.lr >= WARM * most > 0
        ]
        share = _share((each.moved, each.asked) for each in counts)
        if share is None or share.moved > FEW_MOVE * share.asked:
            continue
        nearly_none = share.moved <= NONE_MOVE * share.asked and share.times >= ENOUGH
        made = story.optimizers.get(low.optimizer)
        yield found(
            low.site or (None if made is None else made.site),
            f"weights kept in {low.dtype}: of {share.asked:,} moves of elements with a gradient, {share.moved:,} were made in"
            f" {share.times} completed"
            f" updates (lr {most:g}); the others rounded back to where they were",
            severity="error" if nearly_none else "note",
            fix=f"keep the weights in float32 and let autocast convert them to {low.dtype}",
        )
        outside = [place for place in lines(low.site) if place.function not in INSIDE]
        yield from companion(low.site, Site(place=outside[0]) if outside else None, "here their module is made so")


def _averages(story: Story) -> Iterator[Finding]:
    for number in sorted({event.average for event in story.of(Averaged)}):
        events = [event for event in story.of(Averaged) if event.average == number and event.asked]
        yield from _stuck(((event.moved, event.asked) for event in events), events, "a moving average")


def _sums(story: Story) -> Iterator[Finding]:
    by_line: dict[Site | None, list[Lost]] = {}
    for event in story.of(Lost):
        place = event.made or event.site
        by_line.setdefault(None if place is None else Site(place.place), []).append(event)
    for events in by_line.values():
        late = _longest_stop(events)  # a sum moves well while it is small
        late = late if len(late) >= ENOUGH else events
        yield from _stuck(((event.moved, event.asked) for event in late), late, "an accumulator")


def _longest_stop(events: list[Lost]) -> list[Lost]:
    """The most additions in a row that moved nothing."""
    longest: list[Lost] = []
    run: list[Lost] = []
    for event in events:
        run = [*run, event] if not event.moved else []
        longest = max(longest, run, key=len)
    return longest


def _stuck(counts: Iterable[tuple[int, int]], events: list[Averaged] | list[Lost], what: str) -> Iterator[Finding]:
    share = _share(counts)
    if share is None or share.times < ENOUGH or share.moved > STUCK * share.asked:
        return
    yield found(
        events[0].made or events[0].site,
        f"{what} kept in {events[0].dtype}: of {share.asked:,} elements that something was added to, {share.moved:,} moved;"
        " the rest rounded away",
        evidence=() if events[0].made is None else (f"added to at {events[0].site}",),
        fix="keep it in float32",
        times=share.times,
    )


@dataclass(frozen=True, kw_only=True)
class _Share:
    moved: int
    asked: int
    times: int


def _share(counts: Iterable[tuple[int, int]]) -> _Share | None:
    known = [(moved, asked) for moved, asked in counts if asked]
    if not known:
        return None
    return _Share(moved=sum(moved for moved, _ in known), asked=sum(asked for _, asked in known), times=len(known))


RULE = Rule(
    id="lost-update",
    title="updates round away in a low precision",
    why="bfloat16 has 8 bits: next to 1.0 whatever is below 0.002 is lost, and a usual update is. The steps complete, the"
    " weights stay.",
    bad="model = model.to(torch.bfloat16)\noptimizer = Adam(model.parameters(), lr=1e-4)",
    good="optimizer = Adam(model.parameters(), lr=1e-4)  # float32\nwith torch.autocast('cuda', dtype=torch.bfloat16):\n   "
    " loss = model(x).mean()",
    sources=("https://github.com/pytorch/ao/pull/1124", "https://github.com/pytorch/pytorch/issues/120376"),
    check=check,
)
