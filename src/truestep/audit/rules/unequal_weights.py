"""Elements that weigh more or less than others of the same window, by the microbatch that they fell into."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.beside import companion
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.weights import Weighed, weighed

UNEQUAL = 1.05
"""Largest over smallest weight of an element, from which on they are told apart."""


def check(story: Story) -> Iterator[Finding]:
    """Means over different numbers of elements that enter a window alike."""
    for optimizer in story.optimizers:
        windows = [each for each in weighed(story, optimizer) if each.number > 1]
        unequal = [each for each in windows if each.even and _spread(each) > UNEQUAL]
        for each in unequal:
            rest = _short_end(each) and 2 * len(unequal) < len(windows)
            counts = ", ".join(f"{share.elements:g}" for share in each.shares[:8]) + (", ..." if each.number > 8 else "")
            last = each.backwards[-1]
            yield found(
                last.divided or last.site,
                f"microbatches of {counts} elements entered one update with equal weight: an element of the smallest counts"
                f" {_spread(each):.3g} times one of the largest",
                severity="note" if rest else "warning",
                evidence=(f"{len(unequal)} of {len(windows)} windows are so",),
                fix=(
                    "sum the losses and divide by the elements of the whole window, here"
                    f" {sum(share.elements for share in each.shares):g}"
                ),
            )
            main, other = (last.divided, last.site) if last.divided is not None else (last.site, last.computed)
            yield from companion(main, other, "here these microbatches, each a mean of its own, enter the window")


def _spread(each: Weighed) -> float:
    weights = [share.weight for share in each.shares]
    return max(weights) / min(weights) if min(weights) > 0 else 1.0


def _short_end(each: Weighed) -> bool:
    """All microbatches are of one size but the last, which is smaller: the end of an epoch."""
    *others, last = [share.elements for share in each.shares]
    return len(set(others)) == 1 and last < others[0]


RULE = Rule(
    id="unequal-weights",
    title="elements of one window weigh differently",
    why="A mean of means is not the mean: tokens of short sequences count many times as much as those of long ones, at random.",
    bad="for x, y in window:\n    (cross_entropy(model(x), y) / len(window)).backward()",
    good=(
        "tokens = sum((y != -100).sum() for _, y in window)\nfor x, y in window:\n    (cross_entropy(model(x), y,"
        " reduction='sum') / tokens).backward()"
    ),
    sources=(
        "https://github.com/huggingface/transformers/issues/24725",
        "https://github.com/huggingface/transformers/pull/34198",
    ),
    check=check,
)
