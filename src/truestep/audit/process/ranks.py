"""What ranks that should do the same did differently: the gradient, the skip or the loss scale of one attempt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, zip_longest
from typing import Literal

from truestep.audit.events import Edited, Ranks, Stepped, Updated
from truestep.audit.story import Story, Window

APART = 1e-3
"""Relative difference of gradients above which no reduction made them one; in float32 theirs is near 1e-6."""

SHARDED = "ZeroRedundancyOptimizer"
"""Gives each rank's own optimizer other parameters than the others have."""

Attempt = tuple[int, tuple[int, ...]]
"""The optimizer and the numbers of its backwards, which are the same on ranks that do the same."""

What = Literal["gradient", "completed", "scale"]


def compared(stories: Sequence[Story]) -> tuple[Story, ...]:
    """The stories; at the end of the first rank's is what its ranks did differently.

    The n-th process of each rank belongs to the n-th of the others.
    """
    by_rank: dict[int, list[Story]] = {}
    for story in stories:
        if story.rank is not None:
            by_rank.setdefault(story.rank, []).append(story)
    told = [story for story in stories if story.rank is None]
    for several in zip_longest(*(by_rank[rank] for rank in sorted(by_rank))):
        first, *others = [story for story in several if story is not None]
        told += [replace(first, events=(*first.events, *differences([first, *others]))), *others]
    return tuple(told)


def differences(stories: Sequence[Story]) -> tuple[Ranks, ...]:
    """Each attempt that the ranks, given in order, all made but did not make alike; the sites are the first rank's."""
    attempts = [_attempts(story) for story in stories]
    scales = [_scales(story) for story in stories]
    orders = count(max((event.order for event in stories[0].events), default=0) + 1)
    found = []
    for key, (first, _) in attempts[0].items():
        if not all(key in each for each in attempts):
            continue
        made = [each[key] for each in attempts]
        for what, values in _differently(made, [each.get(key) for each in scales], sharded=_sharded(stories, key[0])):
            found.append(Ranks(order=next(orders), site=first.site, what=what, optimizer=key[0], values=values))
    return tuple(found)


def _attempts(story: Story) -> dict[Attempt, tuple[Stepped, Window]]:
    """Those that used a backward."""
    made = ((window.step, window) for window in story.windows if window.step is not None and window.step.backwards)
    return {(step.optimizer, step.backwards): (step, window) for step, window in made}


def _scales(story: Story) -> dict[Attempt, float]:
    """The loss scale that each update left, by the last attempt before it of that scaler."""
    found: dict[Attempt, float] = {}
    last: dict[int, Attempt] = {}
    for event in story.events:
        if isinstance(event, Stepped) and event.scaler is not None:
            last[event.scaler] = event.optimizer, event.backwards
        elif isinstance(event, Updated) and event.scaler in last:
            found[last.pop(event.scaler)] = event.after
    return found


def _differently(
    made: Sequence[tuple[Stepped, Window]], scales: Sequence[float | None], *, sharded: bool
) -> Iterator[tuple[What, tuple[float, ...]]]:
    """What differs in one attempt, with each rank's value."""
    gradients = [step.judged.observed for step, _ in made if step.judged is not None and math.isfinite(step.judged.observed)]
    comparable = len(gradients) == len(made) and not sharded and any(_reduced(window) for _, window in made)
    if comparable and max(gradients) - min(gradients) > APART * max(gradients):
        yield "gradient", tuple(gradients)
    completed = tuple(float(step.completed) for step, _ in made)
    if len(set(completed)) > 1:
        yield "completed", completed
    known = tuple(scale for scale in scales if scale is not None)
    if len(known) == len(made) and len(set(known)) > 1:
        yield "scale", known


def _reduced(window: Window) -> bool:
    """Whether something makes the ranks' gradients one: DDP, though it be told not to, or a reduction by hand."""
    return any(backward.synced is not None for backward in window.used) or any(edit.reduced for edit in window.of(Edited))


def _sharded(stories: Sequence[Story], optimizer: int) -> bool:
    """Whether the ranks' optimizers have different parameters, whose gradients are not to be the same."""
    kinds = {made.kind for story in stories for made in story.optimizers.values()}
    sizes = {story.optimizers[optimizer].parameters for story in stories if optimizer in story.optimizers}
    return SHARDED in kinds or len(sizes) > 1
