"""Stepping the optimizer past the scaler."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story
from truestep.audit.windows import damage_of, gradients_of, scaled


def check(story: Story) -> Iterator[Finding]:
    """A direct step on gradients that carry a scale, or, unscaled, on some that are not finite."""
    through: dict[int, bool] = {}
    for window in story.windows:
        step = window.step
        if step is None:
            continue
        again = through.get(step.optimizer, False) and step.scaler is None and not window.backwards
        through[step.optimizer] = step.scaler is not None
        if again:
            yield found(
                step.site,
                "optimizer.step() ran right after the scaler's step, on the same gradients: each update is made twice",
                damage=damage_of([window]),
                fix="leave optimizer.step() out: scaler.step(optimizer) has called it",
            )
        if step.scaler is not None or not scaled(window):
            continue
        scale = window.used[-1].scale
        if step.carried != 1.0:
            yield found(
                step.site,
                f"optimizer.step() used gradients that are multiplied by the loss scale ({scale:g}), and nobody"
                " asked whether they"
                " are finite",
                evidence=gradients_of([window]),
                damage=damage_of([window]),
                fix="use scaler.step(optimizer), then scaler.update()",
            )
        elif step.finite is False and step.completed:
            yield found(
                step.site,
                "optimizer.step() used unscaled gradients that are not finite: the scaler's step, which would"
                " have skipped, was passed by",
                fix="use scaler.step(optimizer), then scaler.update()",
            )


RULE = Rule(
    id="optimizer-step-direct",
    title="the optimizer is stepped past the scaler",
    why=(
        "Gradients arrive multiplied by the loss scale and overflows are applied. Adam hides the factor, while weight decay,"
        " epsilon and clipping lose their meaning; SGD moves as many times too far as the scale is large."
    ),
    bad="scaler.scale(loss).backward()\noptimizer.step()",
    good="scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    sources=("https://github.com/nerfstudio-project/nerfacc/issues/307", "https://github.com/IAHispano/Applio/pull/860"),
    check=check,
)
