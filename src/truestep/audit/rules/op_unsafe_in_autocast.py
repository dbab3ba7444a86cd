"""An operation that CUDA refuses under autocast, which a run on the CPU hides."""

from __future__ import annotations

import re
from collections.abc import Iterator

from truestep.audit.events import Autocast, Raised, Unsafe
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story

REFUSED = "unsafe to autocast"
UNCAST = re.compile(
    r"^(index_\w+|scatter\w*|Index put|index_put_?|masked_scatter\w*|put_?)\b.*(dtype|Half|BFloat16)", re.IGNORECASE
)
"""What torch says of operations that write into a tensor, for which autocast has no rule."""


def check(story: Story) -> Iterator[Finding]:
    """Such operations, and torch's own refusal."""
    for event in story.of(Unsafe):
        yield found(
            event.site,
            f"{event.operation} on probabilities inside of a {event.dtype} autocast region: CUDA raises there, and a sigmoid"
            f" in half"
            " precision is exactly 0 or 1 long before the logits are large",
            severity="error" if event.dtype == "float16" else "warning",
            fix="use binary_cross_entropy_with_logits on the logits, or leave the region for it",
        )
    for raised in story.of(Raised):
        if REFUSED in raised.text and not story.of(Unsafe):
            yield found(raised.site, raised.text.splitlines()[0], fix="use binary_cross_entropy_with_logits on the logits")
        elif UNCAST.search(raised.text) and not nested(story) and any(event.enabled for event in story.of(Autocast)):
            yield found(
                raised.site,
                f"autocast does not cast for this operation, which met two formats: {raised.text.splitlines()[0]}",
                fix="make the one tensor of the other's dtype, such as zeros with dtype=x.dtype, or cast with .to",
            )


def nested(story: Story) -> bool:
    """Whether a region inside of another disagrees with it: then that is the cause."""
    return any(event.outer is not None and event.enabled and event.outer != event.dtype for event in story.of(Autocast))


RULE = Rule(
    id="op-unsafe-in-autocast",
    title="binary cross entropy of probabilities under autocast",
    why="A half-precision sigmoid saturates, and the logarithm of what is left is wrong or infinite; CUDA therefore refuses it.",
    bad="with torch.autocast('cuda'):\n    loss = binary_cross_entropy(torch.sigmoid(model(x)), y)",
    good="with torch.autocast('cuda'):\n    loss = binary_cross_entropy_with_logits(model(x), y)",
    sources=("https://github.com/pytorch/pytorch/issues/61098", "https://github.com/Megvii-BaseDetection/YOLOX/issues/336"),
    check=check,
)
