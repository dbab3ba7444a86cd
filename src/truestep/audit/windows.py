"""What rules ask of windows: what an edit was, which gradients were hurt, and how a damage is told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise

from truestep.audit.events import Backward, Clipped, Edited, Unscaled, Updated
from truestep.audit.story import Kind, Story, Window

ALONG = 1e-3
"""1 - cosine up to which an edit kept the direction."""

BOUND = 1e-6
"""What torch's clip adds to a norm makes a clip that does not bind shorten by as much."""

CLOSE = 1e-3
"""Relative difference of two numbers that are meant to be the same."""


def close(left: float, right: float, tolerance: float = CLOSE) -> bool:
    """Whether two numbers are meant to be the same."""
    return math.isclose(left, right, rel_tol=tolerance)


def shortened(event: Edited) -> bool:
    """Whether an edit made gradients shorter and kept their direction, as a clip by norm does."""
    along = event.cosine is not None and event.cosine > 1 - ALONG
    return along and event.ratio is not None and event.ratio < 1 - CLOSE


def unscaled_by_hand(event: Edited) -> bool:
    """Whether an edit divided gradients by the loss scale that they carried."""
    return event.carried != 1.0 and shortened(event) and close((event.ratio or 0.0) * event.carried, 1.0)


def clips(window: Window) -> Iterator[Clipped | Edited]:
    """Torch's clips and those made by hand, in order."""
    for event in window.events:
        if (
            isinstance(event, Clipped) and window.optimizer in event.optimizers and not event.strict and event.limit != math.inf
        ) or (isinstance(event, Edited) and window.optimizer in event.optimizers and clips_by_hand(event)):
            yield event


def clips_by_hand(event: Edited) -> bool:
    """Whether an edit clamped gradients, or made them shorter by something that has to do with a limit."""
    clamps = event.operation.startswith(("clamp", "clip"))
    if event.reshapes or event.operation.startswith(("add", "iadd", "sub", "isub", "lerp", "sign")):
        return False
    return not event.reduced and not event.hid and (clamps or (shortened(event) and not unscaled_by_hand(event)))


def left_by(clip: Clipped | Edited) -> float:
    """What a clip left of the gradients' norm, as a part of it; 1 where it did not bind, or was not looked at."""
    left = (clip.factor if isinstance(clip, Clipped) else clip.ratio) or 1.0
    return 1.0 if left > 1 - BOUND else left


def between_used(window: Window, events: Iterable[Kind]) -> list[Kind]:
    """Those that lie between the first and the last backward whose gradients the optimizer was given."""
    if len(window.used) < 2:
        return []
    first, last = window.used[0].order, window.used[-1].order
    return [event for event in events if first < event.order < last]


def after_used(window: Window, events: Iterable[Kind]) -> list[Kind]:
    """Those that lie after the last of these backwards."""
    last = window.used[-1].order if window.used else -1
    return [event for event in events if event.order > last]


def left_behind(window: Window) -> tuple[Backward, Backward] | None:
    """A backward that was to look around, and the one elsewhere that was added to it; None for a sum over several places."""
    pairs = [pair for pair in pairwise(window.used) if window.optimizer in pair[1].elsewhere]
    searches = window.step is not None and window.step.closure
    return pairs[0] if len(pairs) == 1 or (pairs and searches) else None


def scaled(window: Window) -> bool:
    """Whether any gradient that the optimizer was given went through a scaler that is on."""
    return any(backward.carried != "none" and backward.scale != 1.0 for backward in window.used)


def unscales(window: Window) -> tuple[Unscaled, ...]:
    """The unscalings of the optimizer's gradients."""
    return window.of(Unscaled)


def updates(window: Window) -> tuple[Updated, ...]:
    """The updates of the scaler that the window's backwards went through."""
    own = {backward.scaler for backward in window.used}
    return tuple(event for event in window.of(Updated) if event.scaler in own)


def damage_of(windows: Iterable[Window]) -> str | None:
    """The first measured damage among windows."""
    return next(
        (str(window.step.damage) for window in windows if window.step is not None and window.step.damage is not None), None
    )


def gradients_of(windows: Iterable[Window]) -> tuple[str, ...]:
    """The first pair of gradients that disagree, as evidence."""
    for window in windows:
        judged = None if window.step is None else window.step.judged
        if judged is not None and not judged.agrees(0.01):
            angle = "" if judged.cosine is None else f", cosine {judged.cosine:.4f}"
            return (
                f"the gradient that reached the optimizer has norm {judged.observed:.4g}; the right one has"
                f" {judged.expected * judged.clipped:.4g}{angle}",
            )
    return ()


def on(story: Story, scaler: int | None) -> bool:
    """Whether a scaler scales: one that was made before the audit began is taken to."""
    made = story.scalers.get(scaler) if scaler is not None else None
    return scaler is not None and (made is None or made.enabled)
