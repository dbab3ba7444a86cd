"""Moving the scale of several optimizers' scaler before all of them have stepped."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Stepped, Unscaled
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import damage_of, gradients_of, on, updates


def check(story: Story) -> Iterator[Finding]:
    """An update between an optimizer's last backward and its unscaling, after another optimizer's step."""
    for window in story.windows:
        if window.step is None or not window.used or not on(story, window.used[-1].scaler):
            continue
        for update in updates(window):
            others = [event for event in window.events if isinstance(event, Stepped) and event.optimizer != window.optimizer]
            between = window.used[-1].order < update.order < window.step.order
            if not between or not any(window.used[-1].order < other.order < update.order for other in others):
                continue
            moved = update.before != update.after
            unscaled = [event for event in window.before(update, Unscaled) if event.order > window.used[-1].order]
            words = "still held gradients"
            if unscaled:  # update() forgets that they are, and the step unscales once more
                moved, words = True, "had unscaled its gradients and not stepped: they still counted as gradients"
            yield found(
                update.site,
                f"scaler.update() ran while another optimizer {words} of the old scale ({window.used[-1].scale:g})"
                + (f", which then were divided by {update.after:g}" if moved else "; the scale did not move this time"),
                severity="error" if moved else "warning",
                evidence=gradients_of([window]),
                damage=damage_of([window]),
                fix="call scaler.update() once, after the last optimizer's step",
            )
            break


RULE = Rule(
    id="multi-optimizer-one-scaler",
    title="the scale moves between two optimizers' steps",
    why="Whenever the scale grows or backs off, the second optimizer's gradient is wrong by that factor, 2 or 1/2.",
    bad="scaler.step(first)\nscaler.update()\nscaler.step(second)\nscaler.update()",
    good="scaler.step(first)\nscaler.step(second)\nscaler.update()",
    sources=("https://github.com/huggingface/accelerate/issues/439", "https://github.com/neosr-project/neosr/pull/9"),
    check=check,
)
