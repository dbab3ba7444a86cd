"""State that a forward wrote, and that the skip of its attempt did not take back."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.beside import beside
from truestep.audit.events import Healed, Overflowed, Poisoned, Stepped
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.reading.buffers import written_at
from truestep.audit.site import Site
from truestep.audit.story import Story


def check(story: Story) -> Iterator[Finding]:
    """Buffers that are not finite after a skipped attempt, and still are not at the next backward."""
    for event in story.of(Poisoned):
        if any(healed.order > event.order and healed.module == event.module for healed in story.of(Healed)):
            continue
        place = None if event.site is None else written_at(story.sources, event.site, event.module.split()[0], event.buffers)
        yield found(
            _forward(story, event) if place is None else Site(place=place),
            f"the forward of an attempt that was skipped left {', '.join(event.buffers)} of {event.module} not"
            " finite: a skip gives back"
            " weights, not buffers",
            fix="look at the batch before the forward, or restore the buffers when the attempt is skipped",
        )


def _forward(story: Story, event: Poisoned) -> Site | None:
    """The forward's line; where the overflow's own is known, that one, as it stands beside the step."""
    steps = [step for step in story.of(Stepped) if step.order < event.order][-2:]
    since = steps[0].order if len(steps) == 2 else 0
    overflows = [each for each in story.of(Overflowed) if since < each.order < event.order and each.module is not None]
    return beside(overflows[0].site, steps[-1].site) if overflows else event.site


RULE = Rule(
    id="skipped-attempt-side-effect",
    title="a skipped attempt left its mark on buffers",
    why="Running statistics that took in one infinity never lose it: training goes on, and every evaluation is nan.",
    bad="out = model(x)  # one record too large for float16\nscaler.scale(loss_of(out)).backward()\nscaler.step(optimizer)",
    good="if not torch.isfinite(x.half()).all():\n    continue\nout = model(x)",
    sources=("https://github.com/pytorch/pytorch/issues/88474", "https://github.com/pytorch/pytorch/issues/96798"),
    check=check,
)
