"""A moving average of the weights that advances where no update was made."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.beside import beside, companion, last_step, middle
from truestep.audit.events import Averaged
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.rules import skip_detection
from truestep.audit.story import Story

FEW = 2


def check(story: Story) -> Iterator[Finding]:
    """Moves after skipped attempts, and moves on every microbatch."""
    elsewhere = skip_detection.lines_of(story)
    for average in dict.fromkeys(move.average for move in story.of(Averaged)):
        moves = [move for move in story.of(Averaged) if move.average == average]
        idle = [move for move in moves[1:] if not move.attempts and move.backwards]
        early = [move for move in moves if move.attempts and not move.completed]
        wrong = idle if len(idle) >= FEW else early
        if not wrong or (wrong is early and middle(move.attempts for move in moves) > 1):
            continue
        step = last_step(story, wrong[-1].order)
        site = beside(wrong[0].site, None if step is None else step.site)
        if site is None or site.place in elsewhere:
            continue
        what = (
            "times with a backward but no step since its last move" if wrong is idle else "times after attempts that were skipped"
        )
        yield found(
            site,
            f"the average of the weights moved {len(wrong)} {what}: its count and its decay run ahead of the updates",
            severity="warning",
            evidence=(f"{moves[-1].number} moves, {sum(story.totals.completed.values())} updates",),
            fix="move it only where the optimizer stepped and the scale did not fall",
            times=len(wrong),
        )
        yield from companion(site, wrong[0].site, "here that average is moved")


RULE = Rule(
    id="ema-clock",
    title="the average of the weights counts what is no update",
    why=(
        "The same weights are averaged in again: the average lags less than its decay says, and warm-up or bias"
        " correction get a wrong count."
    ),
    bad="scaler.step(optimizer)\nscaler.update()\nema.update_parameters(model)",
    good=(
        "before = scaler.get_scale()\nscaler.step(optimizer)\nscaler.update()\nif scaler.get_scale() >="
        " before:\n    ema.update_parameters(model)"
    ),
    sources=("https://github.com/kekmodel/MPL-pytorch/issues/38", "https://github.com/pytorch/pytorch/issues/67590"),
    check=check,
)
