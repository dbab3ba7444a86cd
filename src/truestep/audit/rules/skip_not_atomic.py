"""An attempt that should have been skipped whole, and was made in part."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.beside import beside, companion, last_step
from truestep.audit.events import Clipped, Edited, Rewritten, Zeroed
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Place
from truestep.audit.story import Story, Window
from truestep.audit.windows import damage_of

FEW = 1
"""Skipped attempts that calibration may take."""


def check(story: Story) -> Iterator[Finding]:
    """Gradients that were not finite were made so and stepped on, and weights that were written after a skip all the same."""
    yield from _rewritten(story)
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
    first = window.used[0].order if window.used else 0
    over = [each.order for each in (*window.backwards, *window.of(Zeroed)) if each.order < first]  # stepped on by nobody
    for event in window.events:
        if over and event.order < max(over):
            continue
        if isinstance(event, Edited) and event.hid and window.optimizer in event.optimizers:
            return event
        if isinstance(event, Clipped) and event.how == "value" and event.finite is False and window.optimizer in event.optimizers:
            return event
    return None


def _rewritten(story: Story) -> Iterator[Finding]:
    """By line: weights multiplied by hand after attempts that were skipped, as by a decay that knows of no skip."""
    moves: dict[Place, list[Rewritten]] = {}
    for event in story.of(Rewritten):
        if event.site is not None:
            moves.setdefault(event.site.place, []).append(event)
    for events in moves.values():
        idle = [event for event in events if event.attempts and not event.completed]
        if not idle:
            continue
        step = last_step(story, idle[0].order, idle[0].optimizer)
        site = beside(idle[0].site, None if step is None else step.site)
        yield found(
            site,
            f"weights were multiplied by {idle[0].ratio:.6g} {len(idle)} times after attempts that were skipped, which were to"
            " change nothing",
            severity="warning" if len(idle) > FEW else "note",
            evidence=(f"`{idle[0].operation}`, seen {len(events)} times",),
            fix="do it only where the optimizer stepped and the scale did not fall",
            times=len(idle),
        )
        yield from companion(site, idle[0].site, "here they are written")


RULE = Rule(
    id="skip-not-atomic",
    title="an attempt that is to be skipped is made in part",
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
