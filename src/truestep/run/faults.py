"""The mistakes that a hand-written loop can be raced with, each in words, and what each needs in order to show. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from truestep.engine.clip import Clip, ClipNorm
from truestep.engine.clock import Every
from truestep.engine.policy import Policy
from truestep.engine.scale import LossScale
from truestep.errors import UsageError

LABEL = "demonstration fault"
"""What a candidate of this kind is called wherever it is shown: it is no precision, and is broken on purpose."""

Need = Literal["clip", "scale", "moving scale", "microbatches", "completed clock"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One mistake of a loop."""

    name: str
    mistake: str
    """What the loop does."""
    damage: str
    """What that does to an update."""
    needs: tuple[Need, ...] = ()
    """Without these the mistake changes nothing."""


NONE = "none"
"""The hand-written loop without a mistake: the control."""

CONTROL = "control"
"""What a candidate with that loop is called wherever it is shown."""

FAULTS = {
    fault.name: fault
    for fault in (
        Fault(name=NONE, mistake="a hand-written loop without a mistake, as a control", damage="none"),
        Fault(
            name="clip-before-unscale",
            mistake="clips the scaled gradient, and unscales what is left",
            damage="every gradient whose scaled norm is above the limit arrives with the norm limit / loss scale",
            needs=("clip", "scale"),
        ),
        Fault(
            name="loss-not-divided",
            mistake="adds the microbatches' mean losses, and divides by nothing",
            damage="the gradient of N equal microbatches arrives N times as long",
            needs=("microbatches",),
        ),
        Fault(
            name="mean-of-means",
            mistake="divides each mean loss by the number of microbatches, however much each of them weighs",
            damage="what weighs little in its window counts as much as what weighs much",
            needs=("microbatches",),
        ),
        Fault(
            name="scheduler-on-skip",
            mistake="ticks the schedule after every attempt, skipped ones too",
            damage="the learning rate runs ahead of the updates that were made",
            needs=("scale", "completed clock"),
        ),
        Fault(
            name="never-update",
            mistake="takes a new GradScaler for every attempt, so that the loss scale never moves",
            damage="one overflow is followed by the same overflow, and every attempt is skipped",
            needs=("moving scale",),
        ),
        Fault(
            name="zero-every-microbatch",
            mistake="zeroes the gradient before every microbatch",
            damage="the last microbatch alone arrives, at its share of the window",
            needs=("microbatches",),
        ),
    )
}


def demand_fault(
    name: str, *, policy: Policy, scale: LossScale | None, clip: Clip | None, clock: str | Every, microbatches: int
) -> None:
    """UsageError unless `name` is a fault that the hand-written loop can show in such a run."""
    if name not in FAULTS:
        raise UsageError(f"no fault is called {name!r}", hint=f"choose one of: {', '.join(FAULTS)}")
    kind = (policy.scale if scale is None else scale).kind
    lacking = {
        "clip": clip is None and "a clip: clip=1",
        "scale": kind == "none" and "a loss scale: the policy fp16, or scale=dynamic",
        "moving scale": kind != "dynamic" and "a loss scale that would move: the policy fp16, or scale=dynamic",
        "microbatches": microbatches < 2 and "a window of several microbatches: accumulate=4",
        "completed clock": clock != "completed" and "a schedule on completed attempts: clock=completed",
    }
    for need in FAULTS[name].needs:
        if lacking[need]:
            raise UsageError(f"fault={name} changes nothing in such a run", hint=f"give it {lacking[need]}", fault=name)
    if policy.weights is not torch.float32:
        hint = "demonstrate a fault under fp32, bf16 or fp16"
        raise UsageError(f"the hand-written loop trains float32 weights, and {policy.name} narrows them", hint=hint)
    if not isinstance(clip, ClipNorm | None):
        raise UsageError("the hand-written loop clips by norm", hint="give clip=ClipNorm(1.0), or none")
