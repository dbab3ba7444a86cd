"""A fused SGD with momentum whose first attempt was skipped: it goes on with momentum that was never written."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Stepped
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story


def check(story: Story) -> Iterator[Finding]:
    """First attempts that a fused optimizer was handed and skipped, with no momentum there yet."""
    for event in story.of(Stepped):
        made = story.optimizers.get(event.optimizer)
        if made is None or made.kind != "SGD" or not made.momentum:
            continue
        if event.fused and event.first and event.unset and not event.completed:
            skipped = story.totals.skipped(event.optimizer)
            yield found(
                made.site,
                f"the first attempt of this fused SGD was skipped ({event.site}), as calibration of the loss scale does: its"
                f" momentum"
                f" ({made.momentum:g}) was allocated and never written, and the next update adds what lay in that memory",
                evidence=(f"{skipped} attempts of it were skipped in all",) if skipped else (),
                fix="use foreach=True instead of fused=True, or set each momentum_buffer to zeros before training",
            )


RULE = Rule(
    id="fused-first-skip",
    title="fused SGD whose first attempt was skipped",
    why="A fault of torch: the fused kernel returns without writing the momentum that it was given as empty memory.",
    bad="optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)\nscaler.step(optimizer)  # skipped: overflow",
    good="optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)\nscaler.step(optimizer)",
    sources=("PyTorch, torch/optim/sgd.py, _fused_sgd: momentum_buffer_list[i] = torch.empty_like(g)",),
    check=check,
)
