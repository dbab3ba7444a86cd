"""Ranks that step with gradients of their own, though something was there to make them one."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.beside import beside
from truestep.audit.events import Edited, Ranks, Reduced
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story, Window
from truestep.audit.together import attempt, reductions, several, told_not_to


def check(story: Story) -> Iterator[Finding]:
    """Windows whose last backward DDP was told to leave alone; and attempts whose gradients were measured to differ."""
    apart = {(told.optimizer, told.backwards): told for told in story.of(Ranks) if told.what == "gradient"}
    for window in several(story):
        told = apart.pop((window.optimizer, window.step.backwards if window.step else ()), None)
        if _left_alone(window):
            yield _unsynced(story, window, told)
        elif told is not None:
            yield _apart(window, told)
    for told in apart.values():
        unseen = attempt(story, told)
        if unseen is not None:
            yield _apart(unseen, told)


def _left_alone(window: Window) -> bool:
    """DDP was told not to average the last backward, and nothing was reduced by hand since."""
    last = window.used[-1]
    told = window.optimizer in last.unsynced and last.synced is False and last.unsynced_at is not None
    return told and not reductions(window)


def _unsynced(story: Story, window: Window, told: Ranks | None) -> Finding:
    last = window.used[-1]
    alone = sum(window.optimizer in backward.unsynced for backward in window.used)
    averages = _averages_weights(story)
    return found(
        told_not_to(story, last),
        f"the last of {len(window.used)} backwards before the step ran without synchronisation, {alone} of them did: each of "
        f"{last.ranks} ranks stepped with its own gradients",
        severity="note" if averages else "error",
        evidence=() if told is None else (_norms(told),),
        fix="let DDP synchronise in the last backward before each step: no_sync() belongs around the others alone",
    )


def _apart(window: Window, told: Ranks) -> Finding:
    last = window.used[-1] if window.used else None
    by_hand = [event for event in window.of(Reduced) if event.what == "gradient"]
    early = [event for event in by_hand if last is not None and event.order < last.order]
    if early and len(early) == len(by_hand):
        return found(
            beside(early[-1].site, None if last is None else last.site),
            f"the gradients were reduced over the ranks before the last of {len(window.used)} backwards: it added each its own",
            evidence=(_norms(told),),
            fix="reduce after the last backward of the window",
        )
    edits = [edit for edit in window.of(Edited) if by_hand and edit.order > by_hand[-1].order and not edit.reduced]
    unlike = [edit for edit in edits if edit.cosine is None or edit.cosine < 1 - 1e-3]
    bypassed = last is not None and window.optimizer in last.unsynced
    return found(
        unlike[-1].site if unlike else None if last is None else last.forward or last.site if bypassed else last.site,
        "the ranks stepped with different gradients" + (": the forward did not go through DDP" if bypassed else ""),
        severity="warning" if unlike else "error",
        evidence=(_norms(told),),
        fix="call the DDP module itself, not its .module, once for each backward"
        if bypassed
        else "reduce what every backward added",
    )


def _norms(told: Ranks) -> str:
    return "norms of the gradient by rank: " + ", ".join(f"{value:.4g}" for value in told.values)


def _averages_weights(story: Story) -> bool:
    """The script averages weights instead, between steps."""
    steps = [window.step.order for window in several(story) if window.step is not None]
    return any(
        event.what == "weights" and event.operation in ("sum", "avg") and event.order < steps[-1] for event in story.of(Reduced)
    )


RULE = Rule(
    id="ddp-no-sync",
    title="ranks step with gradients of their own",
    why="The last backward of a window is the one that averages all of its gradients; without it every rank trains a model "
    "of its own, and only rank 0's is saved.",
    bad="with model.no_sync():\n    for x in window:\n        loss_of(model(x)).backward()\noptimizer.step()",
    good="with model.no_sync():\n    for x in window[:-1]:\n        loss_of(model(x)).backward()\n"
    "loss_of(model(window[-1])).backward()\noptimizer.step()",
    sources=(
        "https://github.com/karpathy/build-nanogpt/pull/30",
        "https://github.com/modelscope/FunASR/pull/3472",
        "https://github.com/huggingface/accelerate/pull/2790",
    ),
    check=check,
)
