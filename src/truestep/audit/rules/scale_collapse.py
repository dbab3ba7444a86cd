"""A loss that is not finite on attempt after attempt, so that the loss scale falls and never recovers."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Overflowed
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.overflows import Overflow, ended_by_it, overflows, vanished_before
from truestep.audit.story import Story
from truestep.audit.windows import updates

ENOUGH = 3
"""Attempts with a loss that is not finite; calibration skips have finite losses."""


def check(story: Story) -> Iterator[Finding]:
    """By line: operations that first were not finite, where the loss then was not either and the scaler skipped."""
    for each in overflows(story):
        if each.forward or vanished_before(story, each.first) or not each.scaled(story):
            continue
        times = len(each.lost)
        if not times:
            continue
        enough = times >= ENOUGH or times == len(story.windows_of(each.lost[0].optimizer)) > 1 or ended_by_it(story, each)
        yield found(
            each.first.site,
            f"`{each.first.operation}` gave the first value that is not finite in {times} attempts: the loss itself is not"
            f" finite,"
            " which no loss scale can repair" + _fall(each),
            severity="error" if enough else "note",
            evidence=(_value(each.first),),
            fix=_fix(each.first),
            times=times,
        )


def _fall(each: Overflow) -> str:
    moves = [update for window in each.lost for update in updates(window)]
    return f"; it was skipped each time and the scale fell from {moves[0].before:g} to {moves[-1].after:g}" if moves else ""


def _value(event: Overflowed) -> str:
    if event.largest is None:
        return f"in {event.dtype}, and not finite in float32 either: such as the logarithm of zero or a division by it"
    return f"its largest value is {event.largest:.4g} in float32; {event.dtype} ends at"
    f" {65504 if event.dtype == 'float16' else 3.39e38:g}"


def _fix(event: Overflowed) -> str:
    if event.operation.startswith("log"):
        return (
            "compute it in float32 by a form that never meets zero: log_softmax, logsumexp, cross_entropy, a clamp before the log"
        )
    if event.largest is not None:
        return f"compute it in float32: .float() on what `{event.operation}` is given"
    return "keep its argument away from where it is not finite: clamp the divisor, or leave empty groups out"


RULE = Rule(
    id="scale-collapse",
    title="the loss is not finite, and the loss scale falls with every attempt",
    why="Scaling cures gradients that are too large or too small, never a value of the forward: the run goes on and learns"
    " nothing.",
    bad="loss = -torch.log(torch.softmax(logits, -1).half())[rows, target].mean()\nscaler.scale(loss).backward()",
    good="loss = torch.nn.functional.cross_entropy(logits.float(), target)\nscaler.scale(loss).backward()",
    sources=("https://github.com/NVIDIA/apex/issues/318", "https://github.com/facebookresearch/fairseq/issues/1529"),
    check=check,
)
