"""What rules ask of values that are not finite: where they began, and which attempts were lost to them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from truestep.audit.events import Autocast, Cut, Overflowed, Raised, Stepped, Vanished
from truestep.audit.site import Place
from truestep.audit.story import Story, Window
from truestep.audit.windows import on

FLOAT16 = 65504.0
"""The largest finite float16."""

PRODUCTS = frozenset(
    ("matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "linear", "conv1d", "conv2d", "conv3d", "scaled_dot_product_attention")
)
"""Sums of products of activations, which belong to a forward wherever they are written."""


@dataclass(frozen=True, kw_only=True)
class Overflow:
    """All first values of one line that were not finite."""

    events: tuple[Overflowed, ...]
    windows: tuple[Window, ...]
    """Those that they lie in."""
    lost: tuple[Window, ...]
    """Of these, those whose loss was not finite."""
    hurt: tuple[Window, ...]
    """Of these, those whose gradients were not finite, skipped or not."""

    @property
    def first(self) -> Overflowed:
        """The first of them."""
        return self.events[0]

    @property
    def forward(self) -> bool:
        """Whether float16 was too short for a value of the forward, rather than a loss that is not finite by itself."""
        held = self.first.dtype == "float16" and self.first.largest is not None and self.first.largest > FLOAT16
        product = self.first.operation.strip("_") in PRODUCTS
        return held and (not self.first.in_loss or product)

    def scaled(self, story: Story) -> bool:
        """Whether its losses went through a scaler that is on."""
        return any(
            on(story, backward.scaler) and backward.carried != "none" for window in self.lost for backward in window.backwards
        )


def overflows(story: Story) -> Iterator[Overflow]:
    """By line, those that no earlier wrong update explains."""
    until = _spoiled(story)
    by_line: dict[Place | None, list[Overflowed]] = {}
    for event in story.of(Overflowed):
        if event.order < until:
            by_line.setdefault(None if event.site is None else event.site.place, []).append(event)
    for events in by_line.values():
        windows = tuple(_first_windows(story, events))
        yield Overflow(
            events=tuple(events),
            windows=windows,
            lost=tuple(
                each for each in windows if any(one.loss is not None and not math.isfinite(one.loss) for one in each.backwards)
            ),
            hurt=tuple(each for each in windows if _unfit(each)),
        )


def vanished_before(story: Story, event: Overflowed) -> bool:
    """Whether an epsilon had rounded to zero before a value that no float32 would mend: then that is the cause."""
    return event.largest is None and any(each.order < event.order for each in story.of(Vanished))


def crossed(story: Story, event: Overflowed) -> bool:
    """Whether a region of its format lies in one of another format, which then is the cause."""
    return any(each.enabled and each.dtype == event.dtype and each.outer not in (None, each.dtype) for each in story.of(Autocast))


def ended_by_it(story: Story, each: Overflow) -> bool:
    """Whether the script ended with an exception in the window of its last one."""
    raised = story.of(Raised)
    return bool(raised) and bool(each.windows) and each.windows[-1].step is None and not story.of(Cut)


def _first_windows(story: Story, events: list[Overflowed]) -> Iterator[Window]:
    """The first window that ends after each event and had a backward after it."""
    seen: set[int] = set()
    for event in events:
        for window in story.windows:
            inside = any(each is event for each in window.events)
            if inside and any(backward.order > event.order for backward in window.backwards):
                if id(window) not in seen:
                    seen.add(id(window))
                    yield window
                break


def _unfit(window: Window) -> bool:
    step = window.step
    finite = [backward.finite for backward in window.used] if step is not None else [each.finite for each in window.backwards]
    return False in finite or (step is not None and (step.finite is False or not step.completed))


def _spoiled(story: Story) -> float:
    """From where on the weights are the work of a wrong update: what overflows then is no cause."""
    for event in story.of(Stepped):
        wrong = event.judged is not None and not event.judged.agrees(0.01)
        if (event.completed and (wrong or event.carried != 1.0)) or (
            event.fused and event.first and event.unset and not event.completed
        ):
            return event.order
    return float("inf")
