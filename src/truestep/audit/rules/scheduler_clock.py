"""A learning rate schedule that advances where no update was made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from truestep.audit.beside import middle
from truestep.audit.events import Restored, SchedulerMade, Stepped, Ticked, Updated
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.reading.rate import set_at
from truestep.audit.rules import skip_detection
from truestep.audit.story import Story

FEW = 2
"""Ticks without an attempt, or moves of a rate, that are no chance any more."""


def check(story: Story) -> Iterator[Finding]:
    """Ticks after skipped attempts, ticks on every microbatch, and rates set by hand that moved though an attempt was skipped."""
    elsewhere = skip_detection.lines_of(story)
    for scheduler in dict.fromkeys(tick.scheduler for tick in story.of(Ticked)):
        ticks = [tick for tick in story.of(Ticked) if tick.scheduler == scheduler]
        if ticks[0].metric or ticks[0].site is None or ticks[0].site.place in elsewhere:
            continue
        yield from _microbatches(ticks) or _skips(story, ticks)
    yield from _by_hand(story)


def _skips(story: Story, ticks: list[Ticked]) -> list[Finding]:
    """Of a schedule that counts updates; one that counts epochs has seen several attempts at each tick."""
    early = [tick for tick in ticks if tick.attempts and not tick.completed]
    if not early or middle(tick.attempts for tick in ticks) > 1:
        return []
    optimizer = ticks[0].optimizer
    attempts, completed = story.totals.attempts.get(optimizer, 0), story.totals.completed.get(optimizer, 0)
    return [
        found(
            early[0].site,
            f"{ticks[0].kind}.step() ran after {len(early)} attempts that were skipped, as if they had been updates",
            severity="warning",
            evidence=(f"{attempts} attempts, {completed} updates, {ticks[-1].number} ticks",),
            fix="call it only where the scale did not fall: if scaler.get_scale() >= scale_before: scheduler.step()",
            times=len(early),
        )
    ]


def _microbatches(ticks: list[Ticked]) -> list[Finding]:
    idle = [tick for tick in ticks[1:] if not tick.attempts and tick.backwards]
    if len(idle) < FEW:
        return []
    return [
        found(
            idle[0].site,
            f"{ticks[0].kind}.step() ran {len(idle)} times with a backward but no step of the optimizer since its last tick:"
            " it counts microbatches, not updates",
            severity="warning",
            fix="call it where the optimizer steps",
            times=len(idle),
        )
    ]


def _by_hand(story: Story) -> Iterator[Finding]:
    """The rate moves from attempt to attempt, over skipped ones too, and no scheduler is there."""
    if story.of(Restored) or not story.of(Updated):
        return
    for optimizer in story.optimizers:
        if any(made.optimizer == optimizer for made in story.of(SchedulerMade)):
            continue
        steps = [step for step in story.of(Stepped) if step.optimizer == optimizer]
        pairs = [(one, other) for one, other in pairwise(steps) if _follow(one, other)]
        moved = [(one, other) for one, other in pairs if one.lr != other.lr]
        skipped = [one for one, _ in moved if not one.completed]
        regular = 2 * (len(moved) - len(skipped)) >= sum(one.completed for one, _ in pairs)
        if not skipped or len(moved) < FEW or not regular:
            continue
        yield found(
            set_at(story.sources, skipped[0].site) or skipped[0].site,
            f"the learning rate moved after {len(skipped)} attempts that were skipped: it is computed from a"
            " count of attempts, not of updates",
            severity="warning",
            evidence=(f"{len(steps)} attempts, {sum(step.completed for step in steps)} updates",),
            fix="advance the counter that it is computed from only where the scale did not fall",
            times=len(skipped),
        )


def _follow(one: Stepped, other: Stepped) -> bool:
    """No attempt was left out between the two."""
    return bool(one.backwards and other.backwards) and other.backwards[0] == one.backwards[-1] + 1


RULE = Rule(
    id="scheduler-clock",
    title="the learning rate schedule counts what is no update",
    why="Warm-up and decay end early: the rate is that of a later update than the one that is made, and it never comes back.",
    bad="scaler.step(optimizer)\nscaler.update()\nscheduler.step()",
    good=(
        "before = scaler.get_scale()\nscaler.step(optimizer)\nscaler.update()\nif scaler.get_scale() >= before:\n   "
        " scheduler.step()"
    ),
    sources=("https://github.com/pytorch/pytorch/issues/44511", "https://github.com/Lightning-AI/pytorch-lightning/issues/5558"),
    check=check,
)
