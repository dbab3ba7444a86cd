"""Weights kept in float16 and trained with a loss scaler."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import LowParameters, OddGradients, Raised, StepCalled, Unscaled
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import on

REFUSED = "Attempting to unscale FP16 gradients"


def check(story: Story) -> Iterator[Finding]:
    """Float16 parameters of an optimizer that a scaler steps, and torch's refusal where they were not seen."""
    odd = {event.optimizer for event in story.of(OddGradients)}  # sparse ones have a rule of their own
    called = [event for event in _called(story) if on(story, event.scaler)]
    raised = next((event for event in story.of(Raised) if REFUSED in event.text), None)
    seen = False
    for low in story.of(LowParameters):
        if low.dtype != "float16" or low.optimizer in odd or not any(event.optimizer == low.optimizer for event in called):
            continue
        made = story.optimizers.get(low.optimizer)
        seen = True
        yield found(
            low.site or (None if made is None else made.site),
            f"{low.parameters} parameters of the optimizer are float16: a scaler unscales float32 gradients only"
            + (f", and torch refuses at {raised.site}" if raised is not None else ""),
            severity="warning" if raised is None and made is not None and made.fused else "error",
            fix="keep trained weights in float32 and let autocast convert them; cast only what is frozen",
        )
    if raised is not None and not seen and not odd:
        yield found(raised.site, "torch refused to unscale float16 gradients", fix="keep trained weights in float32")


def _called(story: Story) -> list[StepCalled | Unscaled]:
    return [*story.of(StepCalled), *story.of(Unscaled)]


RULE = Rule(
    id="fp16-params",
    title="trained weights are float16 under a loss scaler",
    why="Gradients of float16 weights are float16, which the scaler refuses to unscale; without it their updates round away.",
    bad="adapter.half()\noptimizer = AdamW(adapter.parameters())\nscaler = GradScaler('cuda')",
    good="optimizer = AdamW(adapter.parameters())  # float32; autocast casts on the way\nscaler = GradScaler('cuda')",
    sources=("https://github.com/huggingface/diffusers/issues/6363", "https://github.com/huggingface/accelerate/issues/1778"),
    check=check,
)
