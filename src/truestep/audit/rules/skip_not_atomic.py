"""An attempt that should have been skipped whole, and was made in part."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Clipped, Edited
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story, Window
from truestep.audit.windows import damage_of


def check(story: Story) -> Iterator[Finding]:
    """Gradients that were not finite were made so, by hand or by a clip by value, and a step completed with them."""
    for window in story.windows:
        hidden = _hidden(window)
        if hidden is None or window.step is None or not window.step.completed:
            continue
        how = "a clip by value" if isinstance(hidden, Clipped) else f"{hidden.operation} in place of them"
        yield found(
            hidden.site,
            f"gradients that were not finite were hidden by {how}, and the optimizer stepped on what was left",
            evidence=("the step was counted as an update: momentum, weight decay and the step count advanced",),
            damage=damage_of([window]),
            fix=(
                "leave them as they are: scaler.step() skips the attempt and update() lowers the scale; without a"
                " scaler, test and skip"
            ),
        )


def _hidden(window: Window) -> Clipped | Edited | None:
    """The first of the window that took away what was not finite."""
    for event in window.events:
        if isinstance(event, Edited) and event.hid and window.optimizer in event.optimizers:
            return event
        if isinstance(event, Clipped) and event.how == "value" and event.finite is False and window.optimizer in event.optimizers:
            return event
    return None


RULE = Rule(
    id="skip-not-atomic",
    title="gradients that are not finite are hidden, and stepped on",
    why=(
        "The attempt carried no information, but weights move by old momentum and weight decay, the count"
        " advances, and the scaler, which"
        " sees nothing, does not lower the scale."
    ),
    bad="for p in model.parameters():\n    p.grad.nan_to_num_(0.0)\nscaler.step(optimizer)",
    good="scaler.step(optimizer)  # skips where gradients are not finite\nscaler.update()",
    sources=("https://github.com/NVIDIA-NeMo/Speech/issues/11272", "https://github.com/mlnomadpy/flaxchat/issues/6"),
    check=check,
)
