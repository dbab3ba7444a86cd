"""Microbatches that were left over when a window should have closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from truestep.audit.beside import companion, lines
from truestep.audit.events import Backward, Restored, Zeroed
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Site
from truestep.audit.story import Story, Window
from truestep.audit.weights import Weighed, alike, holds, weighed
from truestep.audit.windows import close, gradients_of


def check(story: Story) -> Iterator[Finding]:
    """Windows of more or fewer microbatches than the number that they were divided by, and microbatches cleared"
    " before their step."""
    for optimizer in story.optimizers:
        windows = list(weighed(story, optimizer))
        full = Counter(
            each.number
            for each in windows
            if each.number > 1
            and close(each.total, 1.0, 0.01)
            and each.divided_by(each.number)
            and close(each.rescaled, 1.0, 0.01)
        )
        if full:
            size = full.most_common(1)[0][0]
            for each in windows:
                if each.window.number > 1 or not _restored(
                    story, optimizer
                ):  # a resume inside a window is the checkpoint's fault
                    yield from _of_another_size(story, each, size)
        for window in story.windows_of(optimizer):
            yield from _dropped(story, window)


def _restored(story: Story, optimizer: int) -> bool:
    return any(event.what == "optimizer" and event.which == optimizer for event in story.of(Restored))


def _of_another_size(story: Story, each: Weighed, size: int) -> Iterator[Finding]:
    """Divided by `size` all the same."""
    number, step = each.number, each.window.step
    if number == size or step is None or step.dropped or not close(each.total, number / size, 0.01) or not each.divided_by(size):
        return
    if not close(each.rescaled, 1.0):
        return
    if number > size:
        yield found(
            _closing(story, step.site),
            f"a window closed with {number} microbatches, each divided by {size}: {number - size} were left over"
            " from before, when"
            f" nothing closed theirs, so that it weighs {each.total:.3g} where 1 is right",
            evidence=gradients_of([each.window]),
            fix="close the window at the end of an epoch too, and divide by the microbatches that it holds",
        )
    else:
        last = each.backwards[-1]
        yield found(
            last.divided or last.site,
            f"a window of {number} microbatches was divided by {size}, as full ones are: it weighs"
            f" {each.total:.3g} where 1 is right",
            severity="warning",
            evidence=gradients_of([each.window]),
            fix="divide by what the window holds; where it is the first one, let windows close at (i + 1) % N",
        )


def _closing(story: Story, site: Site | None) -> Site | None:
    """The `if` that decides when the window closes; the step itself where there is none."""
    for index, place in enumerate(lines(site)):
        test = story.sources.condition(place)
        if test is not None:
            return Site(place=test, callers=lines(site)[index + 1 :])
    return site


def _dropped(story: Story, window: Window) -> Iterator[Finding]:
    """Some microbatches, fewer than a window, were cleared in front of a whole one."""
    used = window.used
    for zero in window.of(Zeroed):
        gone = tuple(story.backwards[number] for number in zero.dropped if number in story.backwards)
        lost = set(zero.dropped) - story.used_by_any
        if len(used) < 2 or not 0 < len(gone) < len(used) or len(lost) != len(gone) or gone[-1].order > used[0].order:
            continue
        if not alike((*gone, *used)) or not all(_meant_for(each, len(used)) for each in gone):
            continue
        closing = _closing(story, None if window.step is None else window.step.site)
        yield found(
            closing,
            f"{len(gone)} microbatches of a window that holds {len(used)} were left when it did not close, and cleared before any"
            " step had used them",
            severity="warning",
            fix="step on what is left when an epoch ends, divided by its own number, before clearing",
        )
        yield from companion(closing, zero.site, "here they were cleared")


def _meant_for(backward: Backward, size: int) -> bool:
    """It was divided by the number that a window holds, or cannot be read; and was no overflow, which is rightly dropped."""
    return backward.finite is not False and (backward.share is None or holds(backward.share, size))


RULE = Rule(
    id="partial-window",
    title="a window closes with the wrong microbatches",
    why=(
        "The last microbatches of an epoch leak into the next update, are thrown away, or count as a fraction of"
        " what they should."
    ),
    bad=(
        "for i, x in enumerate(loader):\n    (loss_of(x) / 4).backward()\n    if (i + 1) % 4 == 0:\n       "
        " optimizer.step()\n        optimizer.zero_grad()"
    ),
    good=(
        "for i, x in enumerate(loader):\n    (loss_of(x) / size_of_window(i)).backward()\n"
        "    if (i + 1) % 4 == 0 or i + 1 == len(loader):\n        optimizer.step()\n        optimizer.zero_grad()"
    ),
    sources=("https://github.com/meta-pytorch/torchtune/pull/2745", "https://github.com/NVIDIA-NeMo/Automodel/pull/2257"),
    check=check,
)
