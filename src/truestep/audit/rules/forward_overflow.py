"""A value of the forward that float16 cannot hold, whatever the loss scale is."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.finding import Finding, Rule, found
from truestep.audit.overflows import Overflow, crossed, ended_by_it, overflows, vanished_before
from truestep.audit.rules.nested_autocast import uncast
from truestep.audit.story import Story

ENOUGH = 2

RARE = 6
"""One attempt in so many is rare."""


def check(story: Story) -> Iterator[Finding]:
    """By line: operations whose float16 result overflowed where float32 holds it, and what came of it."""
    for each in overflows(story):
        if not each.forward or vanished_before(story, each.first) or crossed(story, each.first) or uncast(story, each.first):
            continue
        harmless = each.first.negative and not each.lost and not each.hurt
        if harmless:  # a mask's minus infinity
            continue
        largest = max(event.largest or 0.0 for event in each.events)
        enough = (len(each.windows) >= ENOUGH and not _outlier(story, each)) or ended_by_it(story, each)
        yield found(
            each.first.site,
            f"`{each.first.operation}` overflows {each.first.dtype} in {each.first.module or 'the forward'}: its largest value is"
            f" {largest:.4g} in float32, and {each.first.dtype} ends at 65504. {_outcome(each)}",
            severity=("error" if each.lost or each.hurt else "warning") if enough else "note",
            evidence=(f"seen in {len(each.windows)} attempts; no loss scale has a part in it",),
            fix=(
                f"scale what `{each.first.operation}` is given before it, or compute it in float32 (.float(), outside of the"
                f" region)"
                " or in bfloat16"
            ),
            times=len(each.windows),
        )


def _outlier(story: Story, each: Overflow) -> bool:
    """Whether few attempts met it and all of these were skipped, as for an example unlike all others."""
    attempts = max(story.totals.attempts.values(), default=0)
    skipped = all(window.step is not None and not window.step.completed for window in each.windows)
    return skipped and len(each.windows) * RARE <= attempts


def _outcome(each: Overflow) -> str:
    if each.hurt:
        return f"{len(each.hurt)} attempts were lost to it"
    return "the loss is not finite" if each.lost else "the loss stays finite, made of values that are wrong"


RULE = Rule(
    id="forward-overflow",
    title="a value of the forward overflows float16",
    why="The infinity is there before any backward: the scaler skips and lowers the scale for nothing, or a wrong value goes"
    " on silently.",
    bad="scores = q @ k.transpose(-2, -1) / math.sqrt(d)  # in float16",
    good="scores = (q / math.sqrt(d)) @ k.transpose(-2, -1)",
    sources=("https://github.com/pytorch/pytorch/issues/60939", "https://github.com/facebookresearch/xformers/pull/98"),
    check=check,
)
