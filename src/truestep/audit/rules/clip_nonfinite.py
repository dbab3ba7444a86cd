"""Clips that meet gradients which are not finite: raising on an ordinary overflow, hiding it, or spreading it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from truestep.audit.events import Clipped, Edited, Raised
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Site
from truestep.audit.story import Story, Window
from truestep.audit.windows import on

REFUSED = "is non-finite, so it cannot be clipped"
RAISES = re.compile(r"^\s*(raise|assert)\b")


def check(story: Story) -> Iterator[Finding]:
    """Norms that raise under a scaler, scripts that do so themselves, and clips whose result was stepped."""
    for window in story.windows:
        if window.step is None:
            yield from _raised(story, window)
        yield from _strict(story, window)
        yield from _stepped(story, window)
    for raised in story.of(Raised):
        strict = any(event.strict for event in story.of(Clipped))
        if REFUSED in raised.text and not strict and any(on(story, number) for number in story.scalers):
            yield _calibration(raised.site)


def _strict(story: Story, window: Window) -> Iterator[Finding]:
    for clip in window.of(Clipped):
        if clip.strict and _scaled(story, window) and not _lost(window):
            yield _calibration(clip.site)


def _calibration(site: Site | None) -> Finding:
    return found(
        site,
        "error_if_nonfinite=True turned an ordinary overflow, by which a loss scale is calibrated, into an exception before the"
        " scaler could skip the step and lower the scale",
        fix="leave error_if_nonfinite out: scaler.step skips, and the loss can be watched instead",
    )


def _raised(story: Story, window: Window) -> Iterator[Finding]:
    """The script's own raise, after a norm that is not finite while the loss is."""
    raised = next((event for event in window.events if isinstance(event, Raised)), None)
    unfit = [event for event in window.backwards if event.finite is False]
    if raised is None or raised.site is None or not unfit or not _scaled(story, window) or _lost(window):
        return
    if not RAISES.match(story.sources.statement(raised.site.place) or ""):
        return
    clip = next((event.site for event in reversed(window.of(Clipped)) if event.site is not None), None)
    yield found(
        _beside(raised.site, clip),
        f"the script raised {raised.kind} on gradients that overflowed, though the loss is finite: a scaler skips such a"
        f" step and lowers the scale ({unfit[0].scale:g})",
        evidence=(f"{raised.kind}: {raised.text.splitlines()[0] if raised.text else ''}",),
        fix="raise only when the scale is at its floor, or on a loss that is not finite",
    )


def _beside(raised: Site, clip: Site | None) -> Site:
    """Of the lines that led to the exception, the one in the function that clips."""
    places = (raised.place, *raised.callers)
    for place in places if clip is not None else ():
        if clip is not None and (place.path, place.function) == (clip.place.path, clip.place.function):
            return Site(place=place)
    return raised


def _stepped(story: Story, window: Window) -> Iterator[Finding]:
    if window.step is None or not window.step.completed:
        return
    for clip in window.of(Clipped):
        if clip.finite is not False or clip.strict or any(edit.hid for edit in window.after(clip, Edited)):
            continue  # skip-not-atomic names what hid it afterwards
        if clip.how == "value" and clip.carried != 1.0:
            what = (
                "clipping by value made gradients that overflowed finite before the scaler looked: it stepped instead of skipping"
            )
        elif not _scaled(story, window) and any(event.finite is False for event in window.used):
            what = "the clip met gradients that are not finite, and the step was made all the same: " + (
                "the limit over an infinite norm is zero, and zero times infinity is NaN"
                if clip.how == "norm"
                else "with the limit for infinity"
            )
        else:
            continue
        yield found(
            clip.site,
            what,
            fix="unscale first and let scaler.step skip; without a scaler, skip the step when the norm is not finite",
        )


def _scaled(story: Story, window: Window) -> bool:
    return any(on(story, event.scaler) and event.carried != "none" for event in window.backwards)


def _lost(window: Window) -> bool:
    """The loss itself is not finite, which no calibration cures."""
    return any(event.loss is not None and not math.isfinite(event.loss) for event in window.backwards)


RULE = Rule(
    id="clip-nonfinite",
    title="a clip meets gradients that are not finite",
    why="Overflows are how a loss scale finds its size. A clip that raises ends the run, one by value hides them, and"
    " without a scaler"
    " one by norm writes NaN into every weight.",
    bad="scaler.unscale_(optimizer)\nclip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)\nscaler.step(optimizer)",
    good="scaler.unscale_(optimizer)\nclip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)",
    sources=("https://github.com/pytorch/pytorch/issues/46849", "https://github.com/Lightning-AI/pytorch-lightning/pull/16715"),
    check=check,
)
