"""Clipping gradients that still carry the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Clipped, Edited
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story, Window
from truestep.audit.windows import clips, close, damage_of, gradients_of, left_by, shortened

LIMITS: dict[str, tuple[str | int, ...]] = {"norm": ("max_norm", 1), "value": ("clip_value", 1)}
"""Where the limit stands in a call of torch's clips."""

LEAST_SCALE = 8
"""What a loss is multiplied by from which on it is taken for a scale, and no coefficient."""


def check(story: Story) -> Iterator[Finding]:
    """A clip while the gradients carry a scale, unless its limit was made of that scale."""
    for window in story.windows:
        for clip in clips(window):
            scale = clip.carried if clip.carried != 1.0 else _own_scale(story, window, clip)
            if scale is not None and not _limit_is_scaled(story, clip) and _finite(clip):
                yield _found(story, window, clip, scale)


def _own_scale(story: Story, window: Window, clip: Clipped | Edited) -> float | None:
    """What the script multiplied the loss by, and divided the gradients by after this clip; None where it did not.

    A limit that is a product may hold it.
    """
    shares = [backward.share for backward in window.used]
    scales = [1 / each for share in shares if share is not None for each in share.divisors if each < 1 / LEAST_SCALE]
    later = [event for event in window.after(clip, Edited) if shortened(event)]
    own = next((scale for scale in scales for event in later if close((event.ratio or 0.0) * scale, 1.0)), None)
    if own is None or clip.site is None or (isinstance(clip, Edited) and close((clip.ratio or 0.0) * own, 1.0)):
        return None
    limits = LIMITS.get(clip.how, ()) if isinstance(clip, Clipped) else (None,)
    return None if any(story.sources.is_product(clip.site, argument) for argument in limits) else own


def _finite(clip: Clipped | Edited) -> bool:
    return clip.finite is not False if isinstance(clip, Clipped) else True


def _limit_is_scaled(story: Story, clip: Clipped | Edited) -> bool:
    if clip.site is None:
        return False
    if isinstance(clip, Edited):
        return story.sources.derives_from(clip.site, None, "get_scale")
    return any(story.sources.derives_from(clip.site, argument, "get_scale") for argument in LIMITS.get(clip.how, ()))


def _whose(story: Story, window: Window) -> str:
    """Which optimizer is meant, where there are several."""
    made = story.optimizers.get(window.optimizer)
    return f", for the {made.kind} of {made.site}" if made is not None and len(story.optimizers) > 1 else ""


def _found(story: Story, window: Window, clip: Clipped | Edited, scale: float) -> Finding:
    limit = clip.limit if isinstance(clip, Clipped) else None
    words = f"the clip acted on gradients that still carry the loss scale ({scale:g})"
    if limit is not None:
        words += f": its limit of {limit:g} is {limit / scale:.3g} in original units"
    left = left_by(clip)
    idle = left == 1.0
    shortened = "it did not bind here" if idle else f"it made the gradients {1 / left:.4g} times shorter"
    return found(
        clip.site,
        words,
        severity="warning" if idle else "error",
        evidence=(shortened, *gradients_of([window])),
        damage=damage_of([window]),
        fix=f"call scaler.unscale_(optimizer) right before the clip{_whose(story, window)}"
        if clip.carried != 1.0
        else "divide the gradients by the scale before the clip",
    )


RULE = Rule(
    id="clip-before-unscale",
    title="the clip sees gradients multiplied by the loss scale",
    why=(
        "A limit in original units is held against gradients that are as many times too large as the scale: it cuts nearly every"
        " update, and the loss still falls, slowly, as if the learning rate were wrong. Adam hides much of it,"
        " until the scale moves."
    ),
    bad="scaler.scale(loss).backward()\nclip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\nscaler.update()",
    good=(
        "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\nclip_grad_norm_(model.parameters(), 1.0)\n"
        "scaler.step(optimizer)\nscaler.update()"
    ),
    sources=(
        "PyTorch, Automatic Mixed Precision examples: Gradient clipping",
        "https://github.com/Lightning-AI/pytorch-lightning/issues/9599",
    ),
    check=check,
)
