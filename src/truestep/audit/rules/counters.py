"""Counting one microbatch for a window, microbatches for updates, or skipped attempts as applied work."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from truestep.audit.events import Rated, Ticked
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.reading.counts import Claim
from truestep.audit.site import Place
from truestep.audit.story import Story

SURE = 3
"""Stretches that have to agree where the backwards of each are of different sizes."""
WINDOWS = 2
"""Attempts that a counter has to be seen in."""
FEW = 1
"""Skipped attempts that calibration may take."""
SHARE = 10
"""One skipped attempt in so many is none of a finding."""


def check(story: Story) -> Iterator[Finding]:
    """By line: rates that never count all of what went through, and those that count what was skipped."""
    lines: dict[Place, list[Rated]] = defaultdict(list)
    for event in story.of(Rated):
        if event.site is not None:
            lines[event.site.place].append(event)
    for place, events in lines.items():
        several = [event for event in events if event.backwards > 1]
        claim = story.sources.claim(place)
        if claim is not None:
            several = [event for event in events if event.backwards > 1] if claim.updates else []
            yield from _of_updates(story, claim, several) if several else _of_attempts(story, claim, events)
        elif several and all(event.examples is not None and not _whole(event) for event in several):
            yield from _of_part(several)
        elif _whole(events[-1]):
            yield from _of_skipped(story, events[-1])


def _of_updates(story: Story, claim: Claim, events: list[Rated]) -> Iterator[Finding]:
    """A counter that moved with every backward of several attempts, though the script takes it for updates."""
    last = events[-1]
    if len(events) < WINDOWS:
        return
    by_update = [tick.backwards > 1 and tick.attempts == 1 for tick in story.of(Ticked)]
    if claim.schedule is not None and not (by_update and all(by_update)):
        return
    what = f"`{claim.name}` counts microbatches, {last.backwards} for each update"
    if claim.schedule is not None:
        what += f": it ends training at `{claim.schedule}`, when the schedule of that length has made 1 of {last.backwards} ticks"
    yield found(
        last.site,
        what,
        severity="warning",
        evidence=(f"it moved by {last.value:.0f} in each of {len(events)} attempts that were looked at",),
        fix="count where the optimizer is stepped",
        times=len(events),
    )


def _of_attempts(story: Story, claim: Claim, events: list[Rated]) -> Iterator[Finding]:
    """A counter that ends training, and moved with skipped attempts too: whether it was to count updates its author knows."""
    skipped = sum(event.skipped for event in events)
    attempts = max(story.totals.attempts.values(), default=0)
    if claim.ends and skipped > FEW and skipped * SHARE > attempts:
        yield found(
            events[-1].site,
            f"`{claim.name}` decides how long training goes on and also counts attempts that were skipped, {skipped} of"
            f" {attempts}: so many fewer updates are made",
            severity="note",
            fix="where updates are meant, count only where the scale did not fall",
            times=skipped,
        )


def _of_part(events: list[Rated]) -> Iterator[Finding]:
    last = events[-1]
    of_tokens = last.tokens is not None and last.real_tokens is not None
    one, real = (last.tokens, last.real_tokens) if of_tokens else (last.examples, last.real_examples)
    if not one or not real or (not math.isclose(real, one * last.backwards) and len(events) < SURE):
        return
    unit = "tokens" if of_tokens else "examples"
    yield found(
        last.site,
        f"`{last.expression}` counts {last.value:,.0f} {unit} where {real:,} went through the model between the two readings of "
        f"the clock: {last.value / one:,.0f} of {last.backwards} backwards",
        severity="warning",
        evidence=(
            f"{last.value:,.0f} {unit} counted, {real:,} {unit} in {last.backwards} backwards: "
            f"{last.value / real:.3g} of what it should be",
        ),
        fix="count every microbatch of the window, or add up the size of each beside its backward",
        times=len(events),
    )


def _of_skipped(story: Story, event: Rated) -> Iterator[Finding]:
    """Work that an optimizer skipped, in a budget beside a count that does tell completed updates from attempts."""
    if event.site is None or event.skipped <= FEW or event.skipped * SHARE <= event.backwards:
        return
    if story.sources.budget_beside_guarded(event.site.place, "get_scale"):
        yield found(
            event.site,
            f"`{event.expression}` also counts the work of {event.skipped} skipped attempts and decides how long training goes "
            "on, while another count beside it moves only when the update was completed",
            severity="warning",
            evidence=(
                f"{event.value:,.0f} counted over {event.backwards} backwards, {event.skipped} attempts among them skipped",
            ),
            fix="count it under the same test, or count both in two numbers: seen and applied",
        )


def _whole(event: Rated) -> bool:
    return any(real is not None and math.isclose(event.value, real) for real in (event.real_examples, event.real_tokens))


RULE = Rule(
    id="counters",
    title="a rate or a count leaves out part of the work, or counts work that was not applied",
    why="Throughput, token budgets and schedules are compared between runs by such numbers; with accumulation or skips they are "
    "off by a factor that nothing else shows.",
    bad="start = time.perf_counter()\n"
    "for x in window:\n    (model(x).mean() / len(window)).backward()\n"
    "optimizer.step()\n"
    "tokens_per_second = x.numel() / (time.perf_counter() - start)",
    good="start = time.perf_counter()\n"
    "for x in window:\n    (model(x).mean() / len(window)).backward()\n"
    "optimizer.step()\n"
    "tokens_per_second = sum(x.numel() for x in window) / (time.perf_counter() - start)",
    sources=(
        "https://github.com/karpathy/nanochat/issues/177",
        "https://github.com/axolotl-ai-cloud/axolotl/issues/3688",
        "https://github.com/deepspeedai/DeepSpeed/pull/2505",
    ),
    check=check,
)
