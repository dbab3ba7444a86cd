"""A test that was meant to tell a skipped attempt from an update, and does not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from truestep.audit.beside import beside, companion, lines
from truestep.audit.events import Averaged, Event, StepCalled, Stepped, Ticked, Updated
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.reading import skips
from truestep.audit.site import Place, Site
from truestep.audit.story import Story
from truestep.audit.windows import on


def check(story: Story) -> Iterator[Finding]:
    """Scales compared wrongly, the step's result used as a test, and guards that let clocks tick on skips."""
    read = list(_comparisons(story)) + list(_results(story))
    yield from read
    if not read:
        yield from _guards(story)


def lines_of(story: Story) -> frozenset[Place]:
    """The lines that this rule names, which others then need not."""
    return frozenset(site.place for _, site, _ in _guarded(story))


def _files(story: Story, kind: type[Event]) -> list[str]:
    return list(dict.fromkeys(place.path for event in story.of(kind) for place in lines(event.site)))


def _comparisons(story: Story) -> Iterator[Finding]:
    moves = [event for event in story.of(Updated) if on(story, event.scaler) and not event.by_hand]
    updating = {(place.path, place.line) for event in moves for place in lines(event.site)}
    grown = [event for event in moves if event.after > event.before]
    for path in _files(story, Updated):
        names = story.sources.names(path)
        if names is None:
            continue
        here = {line for file, line in updating if file == path}
        for each in skips.comparisons(names):
            for finding in _compared(each, skips.beside(names, each.first, here), grown):
                yield finding
                late = finding.line == each.first.line
                yield from _companion(story, each.first if late else each.place, each.place if late else None)


def _compared(each: skips.Comparison, updating: set[int], grown: list[Updated]) -> Iterator[Finding]:
    """Against the lines of its function that update the scale."""
    first, second = each.first.line, each.second.line
    between = any(first <= line <= second for line in updating)
    if not between and first != second and any(line < first for line in updating):
        yield found(
            Site(place=each.first),
            "the scale that a later reading is compared with was read after update(), which had changed it"
            " already: no skip can be seen",
            severity="warning",
            evidence=(f"the second reading is at {each.second}",),
            fix="read it before scaler.update()",
        )
    elif between and each.equality:
        yield found(
            Site(place=each.place),
            "whether the scale changed is taken for whether the attempt was skipped; it changes where it grows too"
            + (f", as it did {len(grown)} times here, from {grown[0].before:g} to {grown[0].after:g} first" if grown else ""),
            severity="warning" if grown else "note",
            fix="ask whether it fell: skipped = scaler.get_scale() < scale_before",
        )


def _companion(story: Story, test: Place, other: Place | None) -> Iterator[Finding]:
    """A note at the other line of a comparison, or at what hangs on it."""
    if other is not None:
        yield from companion(Site(place=test), Site(place=other), "here that reading is compared with another")
    else:
        yield from companion(Site(place=test), _act(story, test), "here that test decides what is done for an update")


def _act(story: Story, test: Place) -> Site | None:
    """The first schedule or average that moved under a test of a file, made at a line of it."""
    names = story.sources.names(test.path)
    for event in (*story.of(Ticked), *story.of(Averaged)) if names is not None else ():
        for index, place in enumerate(lines(event.site)):
            if names is not None and place.path == test.path and skips.hangs_on(names, place, test.line):
                return Site(place=place, callers=lines(event.site)[index + 1 :])
    return None


def _results(story: Story) -> Iterator[Finding]:
    """`scaler.step` returns what `optimizer.step` did, which is None without a closure."""
    for place in dict.fromkeys(
        event.site.place for event in story.of(StepCalled) if event.site is not None and on(story, event.scaler)
    ):
        names = story.sources.names(place.path)
        completed = sum(step.completed for step in story.of(Stepped) if step.site is not None and step.site.place == place)
        for test in () if names is None else skips.tests_of_result(names, place):
            yield found(
                Site(place=test),
                "what scaler.step() returned is taken for whether it stepped; it returns what optimizer.step()"
                " does, None, also for the"
                f" {completed} attempts that completed",
                severity="warning",
                fix="compare scaler.get_scale() before and after update()",
            )
            act = _act(story, test) or Site(place=place)
            yield from companion(Site(place=test), act, "here that result is taken, or decides what is done for an update")


def _guards(story: Story) -> Iterator[Finding]:
    for event, site, test in _guarded(story):
        names = story.sources.names(site.path)
        text = None if names is None else story.sources.guard_text(site.place)
        yield found(
            site,
            f"this ran after an attempt that was skipped though a test stands before it ({text}): the test does not see the skip",
            severity="warning",
            evidence=("a fused optimizer's step is entered, and its hooks run, also where it skips",)
            if _fused(story, event)
            else (),
            fix="test whether the scale fell: if scaler.get_scale() >= scale_before",
        )
        at = Site(place=Place(site.path, test.lineno, site.place.function))
        yield from companion(site, at, "here that test is made, which does not see the skip")


def _guarded(story: Story) -> Iterator[tuple[Event, Site, ast.expr]]:
    """Ticks and moves on skipped attempts that stand under a test of their own which asks of something that the attempt did."""
    events: tuple[Ticked | Averaged, ...] = (*story.of(Ticked), *story.of(Averaged))
    for event in events:
        if not event.attempts or event.completed or event.site is None or (isinstance(event, Ticked) and event.metric):
            continue
        step = next((each for each in reversed(story.of(Stepped)) if each.order < event.order), None)
        site = beside(event.site, None if step is None else step.site) if isinstance(event, Averaged) else event.site
        names = None if site is None else story.sources.names(site.path)
        if site is None or names is None:
            continue
        stepped = None if step is None else beside(step.site, site)
        same = stepped is not None and (stepped.path, stepped.place.function) == (site.path, site.place.function)
        own = skips.own_guards(names, site.place, stepped.place if same and stepped is not None else None)
        fused = _fused(story, event)
        for test in own:
            if skips.asks_of_a_skip(story.sources.flow, names, test) or (fused and skips.notices_a_change(names, test)):
                yield event, site, test
                break


def _fused(story: Story, event: Event) -> bool:
    optimizer = getattr(event, "optimizer", None)
    return any(step.fused for step in story.of(Stepped) if optimizer in (None, step.optimizer))


RULE = Rule(
    id="skip-detection",
    title="a skipped attempt is not told from an update",
    why="Schedules, averages and counters then advance on attempts that changed nothing, or stand still on ones that did.",
    bad=(
        "loss_is_finite = math.isfinite(loss.item())\nscaler.step(optimizer)\nscaler.update()\nif loss_is_finite:\n "
        "   scheduler.step()"
    ),
    good=(
        "before = scaler.get_scale()\nscaler.step(optimizer)\nscaler.update()\nif scaler.get_scale() >= before:\n   "
        " scheduler.step()"
    ),
    sources=("https://github.com/huggingface/accelerate/issues/4242", "https://github.com/pytorch/pytorch/issues/152279"),
    check=check,
)
