"""A loss scaler around bfloat16, which does not need one."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Autocast, LowParameters, Raised, StepCalled, Stepped
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import on


def check(story: Story) -> Iterator[Finding]:
    """By scaler that is on: bfloat16 parameters that it unscales, or only bfloat16 regions behind what it scales."""
    low = {event.optimizer for event in story.of(LowParameters) if event.dtype == "bfloat16"}
    refused = any("not implemented for 'BFloat16'" in event.text for event in story.of(Raised))
    for number, made in story.scalers.items():
        closed = any(
            event.closure for event in story.of(StepCalled) if event.scaler == number
        )  # the rule of closures says it already
        if not on(story, number) or closed:
            continue
        formats = {event.low for event in story.backwards.values() if event.scaler == number}
        formats |= {event.dtype for event in story.of(Autocast) if event.enabled and event.dtype == "float16"}
        stepped = {event.optimizer for event in story.of(Stepped) if event.scaler == number}
        if refused or (low & stepped and "float16" not in formats):
            what = "gradients of bfloat16 parameters went through a loss scaler, whose unscaling CUDA refuses"
        elif formats and formats <= {"bfloat16", None} and "bfloat16" in formats:
            what = "all that this loss scaler scaled was computed under bfloat16 autocast, whose range is float32's"
        else:
            continue
        yield found(
            made.site,
            what,
            severity="error" if refused else "warning",
            fix="remove the scaler, or pass enabled=dtype is torch.float16",
        )


RULE = Rule(
    id="bf16-with-scaler",
    title="a loss scaler around bfloat16",
    why=(
        "bfloat16 has float32's exponents: nothing underflows that a scale would save. It costs a wait each step, may skip"
        " updates, and on CUDA raises for bfloat16 parameters."
    ),
    bad="scaler = GradScaler('cuda')\nwith torch.autocast('cuda', dtype=torch.bfloat16):\n    loss = model(x).mean()",
    good="with torch.autocast('cuda', dtype=torch.bfloat16):\n    loss = model(x).mean()\nloss.backward()\noptimizer.step()",
    sources=("https://github.com/pytorch/pytorch/issues/127176", "https://github.com/huggingface/trl/issues/4901"),
    check=check,
)
