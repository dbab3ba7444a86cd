"""What ranks that should do the same did differently: the gradient, the skip or the loss scale of one attempt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, zip_longest
from typing import Literal

from truestep.audit.events import Edited, Ranks, Reduced, Stepped, Updated
from truestep.audit.story import Story, Window

APART = 1e-3
"""Relative difference of gradients above which no reduction made them one; in float32 theirs is near 1e-6."""

SHARDED = "ZeroRedundancyOptimizer"
"""Gives each rank's own optimizer other parameters than the others have."""

Attempt = tuple[int, tuple[int, ...]]
"""The optimizer and the numbers of its backwards, which are the same on ranks that do the same."""

What = Literal["gradient", "completed", "scale", "weight"]


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
    for key in dict.fromkeys(key for each in attempts for key in each):
        made = [each[key] for each in attempts if key in each]
        site = made[0][0].site
        if len(made) == len(stories):
            for what, values in _differently(made, [each.get(key) for each in scales], sharded=_sharded(stories, key[0])):
                found.append(Ranks(order=next(orders), site=site, what=what, optimizer=key[0], values=values, backwards=key[1]))
        elif all(key in each or _passed_over(story, key) for story, each in zip(stories, attempts, strict=True)):
            completed = tuple(float(key in each and each[key][0].completed) for each in attempts)
            unlike = Ranks(order=next(orders), site=site, what="completed", optimizer=key[0], values=completed, backwards=key[1])
            found.append(replace(unlike, attempted=False))
    return tuple(found)


def _passed_over(story: Story, key: Attempt) -> bool:
    """Whether the rank made the backwards of an attempt, never stepped with the last of them, and went on to others."""
    optimizer, numbers = key
    last = story.backwards.get(numbers[-1])
    later = [
        event for event in story.of(Stepped) if event.optimizer == optimizer and last is not None and event.order > last.order
    ]
    return bool(later) and all(number in story.backwards for number in numbers) and numbers[-1] not in later[0].backwards


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
    comparable = len(gradients) == len(made) and not (sharded or _parted(made)) and any(_reduced(window) for _, window in made)
    if comparable and max(gradients) - min(gradients) > APART * max(gradients):
        yield "gradient", tuple(gradients)
    completed = tuple(float(step.completed) for step, _ in made)
    if len(set(completed)) > 1:
        yield "completed", completed
    weights = tuple(_weight(window) for _, window in made)
    if None not in weights:
        yield "weight", tuple(weight for weight in weights if weight is not None)
    known = tuple(scale for scale in scales if scale is not None)
    if len(known) == len(made) and len(set(known)) > 1:
        yield "scale", known


def _weight(window: Window) -> float | None:
    """What the losses of a window give all of its elements together; None where one of them cannot be read, or there is none."""
    shares = [backward.share for backward in window.used]
    if not shares or len(shares) != len(window.step.backwards if window.step else ()) or window.used[-1].ranks == 1:
        return None
    known = [share.weight * share.elements for share in shares if share is not None]
    return sum(known) if len(known) == len(shares) else None


def _reduced(window: Window) -> bool:
    """Whether something makes the ranks' gradients one: DDP, though it be told not to, or a reduction by hand."""
    return any(backward.synced is not None for backward in window.used) or _by_hand(window)


def _by_hand(window: Window) -> bool:
    reduced = any(event.what == "gradient" for event in window.of(Reduced))
    return reduced or any(edit.reduced for edit in window.of(Edited))


def _parted(made: Sequence[tuple[Stepped, Window]]) -> bool:
    """Whether the ranks' optimizers hold other parameters: what they reduced by hand came out with other norms."""
    events = [[event for event in window.of(Reduced) if event.what == "gradient"] for _, window in made]
    sums = [[event.made for event in each if event.made is not None and math.isfinite(event.made)] for each in events]
    if not all(sums):
        return False
    norms = [math.hypot(*each) for each in sums]
    return len({len(each) for each in sums}) > 1 or max(norms) - min(norms) > APART * max(norms)


def _sharded(stories: Sequence[Story], optimizer: int) -> bool:
    """Whether the ranks' optimizers have different parameters, whose gradients are not to be the same."""
    kinds = {made.kind for story in stories for made in story.optimizers.values()}
    sizes = {story.optimizers[optimizer].parameters for story in stories if optimizer in story.optimizers}
    return SHARDED in kinds or len(sizes) > 1
