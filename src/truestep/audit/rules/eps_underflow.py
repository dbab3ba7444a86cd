"""A small number that keeps a division finite and is zero in the format it is added in."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import LowParameters, Overflowed, Stepped, Vanished
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story

HALF_OF_SMALLEST = {"float16": 2.0**-25, "bfloat16": 2.0**-134}
"""Up to this a number rounds to zero."""
ENOUGH = 3


def check(story: Story) -> Iterator[Finding]:
    """Numbers that were added to low-precision tensors and vanished, and the eps of optimizers whose weights are such."""
    for event in story.of(Vanished):
        after = [each for each in story.of(Overflowed) if each.order > event.order]
        unfit = [each for each in story.of(Stepped) if each.order > event.order and (each.finite is False or not each.completed)]
        hurt = bool(after) or len(unfit) >= ENOUGH
        yield found(
            event.site,
            f"{event.number:g} is zero in {event.dtype}: what `{event.operation}` was to keep away from zero is not",
            severity="error" if hurt else "warning",
            evidence=(f"values that are not finite follow, first at {after[0].site}",) if after else (),
            fix=f"compute it in float32 (.float()), or use an epsilon that {event.dtype} holds, such as 1e-4",
        )
    yield from _optimizers(story)


def _optimizers(story: Story) -> Iterator[Finding]:
    for low in story.of(LowParameters):
        made = story.optimizers.get(low.optimizer)
        if made is None or made.eps is None or made.eps > HALF_OF_SMALLEST.get(low.dtype, 0.0):
            continue
        if any(event.completed for event in story.of(Stepped) if event.optimizer == low.optimizer):
            yield found(
                made.site,
                f"{made.kind}'s eps of {made.eps:g} is zero in {low.dtype}, in which {low.parameters} of its parameters and"
                f" their state"
                " are kept",
                severity="warning",
                fix="keep the weights in float32, or raise eps to 1e-4",
            )


RULE = Rule(
    id="eps-underflow",
    title="an epsilon is zero in the format it is used in",
    why="float16 knows nothing below 6e-08: x / (norm + 1e-8) is a division by zero wherever the norm is.",
    bad="x = x / (x.norm(dim=-1, keepdim=True) + 1e-8)  # float16",
    good="x = x / (x.float().norm(dim=-1, keepdim=True) + 1e-8)",
    sources=("PyTorch, torch.finfo(torch.float16).smallest_subnormal: 5.96e-08",),
    check=check,
)
