"""Ranks that step with gradients of their own, though something was there to make them one."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.beside import beside
from truestep.audit.events import Edited, Ranks, Reduced
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Site
from truestep.audit.story import Story, Window
from truestep.audit.together import attempt, reductions, several, told_not_to
from truestep.audit.windows import ALONG


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
        if unseen is not None and unseen.used:
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
    site, words, fix = _cause(window)
    own = _own_edit(window)
    return found(
        site if own is None else own.site,
        f"the ranks stepped with different gradients: {words if own is None else 'each wrote its own after the reduction'}",
        severity="error" if own is None else "warning",
        evidence=(_norms(told),),
        fix=fix,
    )


def _cause(window: Window) -> tuple[Site | None, str, str]:
    """Where it came from, what happened there, and the change."""
    used, step = window.used, window.step
    last = used[-1]
    by_hand = [event for event in window.of(Reduced) if event.what == "gradient"]
    fix = "reduce all gradients after the last backward of the window, before its step"
    if by_hand and by_hand[-1].order < used[0].order:
        return beside(by_hand[-1].site, last.site), "they were reduced after the step that used them", fix
    if by_hand and by_hand[-1].order < last.order:
        words = f"they were reduced before the last of {len(used)} backwards, which added each rank's own"
        return beside(by_hand[-1].site, last.site), words, fix
    if by_hand:
        return beside(by_hand[-1].site, None if step is None else step.site), "not all that a step used was reduced", fix
    if window.optimizer in last.unsynced:
        around = "call the DDP module itself, not its .module, once for each backward"
        return last.forward or last.site, "the forward did not go through DDP", around
    return last.site, "what this backward added was not averaged", "give DDP one forward for each backward"


def _own_edit(window: Window) -> Edited | None:
    """Gradients that a rank changed itself after they were reduced, other than in their length."""
    by_hand = [event.order for event in window.of(Reduced) if event.what == "gradient"]
    edits = [edit for edit in window.of(Edited) if by_hand and edit.order > by_hand[-1] and not edit.reduced]
    return next((edit for edit in edits if edit.cosine is None or edit.cosine < 1 - ALONG), None)


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
