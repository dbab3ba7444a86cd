"""Clipping partial sums while a window of several backwards is still open."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import between_used, clips, damage_of, gradients_of, left_by


def check(story: Story) -> Iterator[Finding]:
    """A clip that binds between two backwards of one window."""
    for window in story.windows:
        inside = between_used(window, clips(window))
        binding = [clip for clip in inside if left_by(clip) < 1.0]
        if not inside:
            continue
        number, all_of_them = len(inside), len(window.used)
        yield found(
            (binding or inside)[0].site,
            f"the clip ran {number + 1} times in a window of {all_of_them} backwards, on partial sums: what came"
            " earlier is cut again and again",
            severity="error" if binding else "note",
            evidence=gradients_of([window]) if binding else ("it did not bind here",),
            damage=damage_of([window]),
            fix="clip once, after the last backward of the window",
        )


RULE = Rule(
    id="clip-inside-window",
    title="partial sums are clipped",
    why="Each later clip shortens the earlier microbatches once more, so that the last ones weigh the most.",
    bad="for x in window:\n    loss_of(x).backward()\n    clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()",
    good="for x in window:\n    loss_of(x).backward()\nclip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()",
    sources=("https://github.com/huggingface/transformers/issues/1563", "https://github.com/verl-project/verl/pull/436"),
    check=check,
)
