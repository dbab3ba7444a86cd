"""A penalty on gradients that still carry the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import PenaltyInScaledUnits
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story


def check(story: Story) -> Iterator[Finding]:
    """Every line that made a term of the loss of scaled gradients, by what is not linear."""
    for event in story.of(PenaltyInScaledUnits):
        yield found(
            event.site,
            f"gradients that are multiplied by the loss scale ({event.scale:g}) went into a term of the loss through"
            f" `{event.operation}`:"
            " the term is of another size, and changes whenever the scale moves",
            fix="divide the gradients by scaler.get_scale() first, then scale the whole loss as usual",
        )


RULE = Rule(
    id="grad-penalty",
    title="a gradient penalty is computed in scaled units",
    why="(||S g|| - 1)^2 is another function than (||g|| - 1)^2: the target of 1 means 1/S, and the weight of the term moves"
    " with S.",
    bad="(g,) = torch.autograd.grad(scaler.scale(score), x, create_graph=True)\npenalty = (g.norm(dim=1) - 1).pow(2).mean()",
    good=(
        "(g,) = torch.autograd.grad(scaler.scale(score), x, create_graph=True)\ng = g / scaler.get_scale()\n"
        "penalty = (g.norm(dim=1) - 1).pow(2).mean()"
    ),
    sources=("PyTorch, Automatic Mixed Precision examples: Gradient penalty", "https://github.com/NVIDIA/apex/issues/654"),
    check=check,
)
