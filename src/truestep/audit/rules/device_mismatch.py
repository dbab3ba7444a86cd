"""A scaler or an autocast region of a device on which nothing runs."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Autocast, ScalerMade
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import on


def switched_off(story: Story, made: ScalerMade) -> bool:
    """Whether a scaler is off though the script wants one: its device is missing, or its `enabled` asks for CUDA."""
    if made.enabled:
        return False
    return made.asked or (made.site is not None and story.sources.derives_from(made.site, "enabled", "is_available"))


def check(story: Story) -> Iterator[Finding]:
    """Scalers that are off while what they scale is float16, and regions that are off while a scaler is on."""
    for number, made in story.scalers.items():
        halves = [event for event in story.backwards.values() if event.scaler == number and event.low == "float16"]
        if halves and switched_off(story, made):
            zeros = max((event.zeros for event in halves if event.zeros is not None), default=None)
            yield found(
                made.site,
                f"this scaler is off"
                f" ({f'{made.device} is not available' if made.asked else 'it asks whether there is CUDA'}), while autocast"
                " runs float16 all the same: small gradients are flushed to zero",
                severity="warning",
                evidence=() if zeros is None else (f"up to {zeros:.1%} of the gradients' elements are zero",),
                fix="give the scaler the device that the model is on: torch.amp.GradScaler(device)",
            )
    casts = any(event.enabled for event in story.of(Autocast))
    scales = any(on(story, number) for number in story.scalers)
    for event in story.of(Autocast):
        if event.asked and not event.enabled and not casts:
            yield found(
                event.site,
                f"this autocast region is of {event.device}, where nothing runs: it casts nothing, and all is computed in"
                f" float32",
                severity="warning" if scales else "note",
                fix="give the region the device that the model is on: torch.autocast(device_type=device.type)",
            )


RULE = Rule(
    id="device-mismatch",
    title="the scaler or the region is of a device that is not used",
    why="torch switches it off with one warning; the other half of mixed precision stays on, or none of it is.",
    bad="scaler = torch.amp.GradScaler()  # CUDA's\nwith torch.autocast('cpu', dtype=torch.float16):\n    loss = model(x).mean()",
    good="scaler = torch.amp.GradScaler('cpu')\nwith torch.autocast('cpu', dtype=torch.float16):\n    loss = model(x).mean()",
    sources=("https://github.com/karpathy/nanoGPT/issues/654", "https://github.com/pytorch/pytorch/issues/142397"),
    check=check,
)
