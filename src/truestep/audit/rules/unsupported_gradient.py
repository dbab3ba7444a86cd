"""Gradients that a loss scaler cannot unscale: complex ones, and sparse ones in float16."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import OddGradients, Raised, StepCalled, Unscaled
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import on

REFUSED = "non_finite_check_and_unscale"


def check(story: Story) -> Iterator[Finding]:
    """Optimizers with such gradients that a scaler steps, and torch's refusal where they were not seen."""
    called = {event.optimizer for event in _called(story) if on(story, event.scaler)}
    raised = next((event for event in story.of(Raised) if REFUSED in event.text and "BFloat16" not in event.text), None)
    odd = [event for event in story.of(OddGradients) if event.optimizer in called]
    for event in odd:
        made = story.optimizers.get(event.optimizer)
        yield found(
            event.site or (None if made is None else made.site),
            f"the gradients of {event.parameters} parameters are {event.what}, which no loss scaler can unscale",
            evidence=() if raised is None else (f"{raised.kind}: {raised.text.splitlines()[0]}",),
            fix=(
                "keep the parameter as two real numbers (torch.view_as_real) and view it as complex where it is used"
                if event.what == "complex"
                else "keep sparse embeddings in float32"
            ),
        )
    if raised is not None and not odd:
        yield found(
            raised.site,
            f"the scaler cannot unscale these gradients: {raised.text.splitlines()[0]}",
            fix="keep parameters real and float32",
        )


def _called(story: Story) -> list[StepCalled | Unscaled]:
    return [*story.of(StepCalled), *story.of(Unscaled)]


RULE = Rule(
    id="unsupported-gradient",
    title="a kind of gradient that a scaler cannot unscale",
    why="The unscaling has no kernel for it, so that the first step raises.",
    bad="self.weight = nn.Parameter(torch.randn(n, dtype=torch.cfloat))",
    good="self.weight = nn.Parameter(torch.view_as_real(torch.randn(n, dtype=torch.cfloat)).clone())",
    sources=("PyTorch, torch/amp/grad_scaler.py, _unscale_grads_",),
    check=check,
)
