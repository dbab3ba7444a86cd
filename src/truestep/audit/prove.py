"""Proof of a finding: the script again for a few updates with the right gradients, beside the run as it stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from truestep.audit.events import Loaded, Restored, Stepped
from truestep.audit.finding import Finding
from truestep.audit.process import Audited, audit
from truestep.audit.story import Story
from truestep.pages.words import counted

UPDATES = 12
"""Attempts of the re-run: those that are judged without a gap."""

LEAST = 2
"""Attempts from which on a loss has a course."""

ALIKE = 1e-3
"""Relative difference up to which two runs from one file begin at the same loss."""

NOTHING_FOUND = "nothing was found that could be proved"

PROVABLE = frozenset(
    (
        "clip-before-unscale",
        "clip-inside-window",
        "unscale-twice",
        "scale-handled-inside-window",
        "optimizer-step-direct",
        "backward-not-scaled",
        "multi-optimizer-one-scaler",
        "zero-grad-placement",
        "scaled-gradient-edit",
    )
)
"""Rules about the gradient that reaches the optimizer; what else a script does wrong is not put right by a gradient."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """The losses of one run, attempt by attempt, in the loss's own units."""

    losses: tuple[float, ...]

    @property
    def words(self) -> str:
        """Its first loss and its last."""
        return f"{self.losses[0]:.4g} to {self.losses[-1]:.4g}"


def course(story: Story, attempts: int) -> Course | None:
    """The mean loss of each of the first attempts of the first optimizer; None where fewer than two are known."""
    first = min((window.optimizer for window in story.windows), default=None)
    losses: list[float] = []
    for window in story.windows:
        known = [backward.loss for backward in window.used if backward.loss is not None]
        if window.optimizer == first and window.step is not None and known and window.number == len(losses) + 1:
            losses.append(sum(known) / len(known))
    return Course(losses=tuple(losses[:attempts])) if len(losses[:attempts]) >= LEAST else None


def prove(audited: Audited, command: Sequence[str], *, module: bool = False, device: str | None = None) -> Audited:
    """The same findings, those about gradients with what a re-run gave; the script runs once more, in silence, and is changed.

    It runs for at most `UPDATES` attempts, with all that it does beside training: it writes its files again. Where nothing can be
    proved, and nothing is run, or where the second run tells nothing, coverage says why under `not_judged`.
    """
    if not any(_provable(finding) for finding in audited.findings):
        return _unproved(
            audited, "no finding is about the gradient that reaches the optimizer" if audited.findings else NOTHING_FOUND
        )
    before = None if not audited.stories else course(audited.stories[0], UPDATES)
    if before is None:
        return _unproved(audited, "the losses of two attempts are not known of the run as it stands")
    again = audit(command, module=module, max_updates=UPDATES, device=device, silent=True, right=True)
    why = _unfit(audited, again)
    after = None if why is not None or not again.stories else course(again.stories[0], UPDATES)
    if after is None:
        return _unproved(audited, why or "the losses of two attempts are not known of the second run")
    if _loads(again) and not math.isclose(before.losses[0], after.losses[0], rel_tol=ALIKE):
        first, second = before.losses[0], after.losses[0]
        why = (
            f"the second run began at a loss of {second:.4g}, the first at one of {first:.4g}: what both load was written between"
        )
        return _unproved(audited, why)
    proof = compared(before, after)
    return replace(audited, findings=tuple(_with(finding, proof) for finding in audited.findings))


def _unfit(audited: Audited, again: Audited) -> str | None:
    """Why a second run cannot be held against the first; None where it can."""
    attempts = sum(sum(each.totals.attempts.values()) for each in again.stories)
    if _loads(again) > _loads(audited):
        return (
            f"the second run, of {counted(attempts, 'attempt')}, went on from what the first one had saved: remove its"
            " checkpoint, or give the script a folder of its own, and audit again"
        )
    if attempts < LEAST:
        failed = f", and it ended with exit code {again.script_exit}" if again.script_exit else ""
        return f"the second run made {counted(attempts, 'attempt')}{failed}: two are needed"
    return None


def _loads(audited: Audited) -> int:
    """How many optimizers, scalers and schedulers were restored, and states of models loaded, before anything was stepped."""
    found = 0
    for story in audited.stories:
        for event in story.events:
            if isinstance(event, Stepped):
                break
            found += isinstance(event, (Loaded, Restored))
    return found


def _unproved(audited: Audited, why: str) -> Audited:
    unjudged = [*audited.coverage["not_judged"], {"what": "a proof", "why": why}]
    return replace(audited, coverage={**audited.coverage, "not_judged": unjudged})


def compared(wrong: Course, right: Course) -> str:
    """In words, how the loss went with the right gradients and without, over as many attempts as both have."""
    both = min(len(wrong.losses), len(right.losses))
    wrong, right = Course(losses=wrong.losses[:both]), Course(losses=right.losses[:both])
    return f"{both} updates with the right gradient took the loss from {right.words}; as the script stands, from {wrong.words}"


def _provable(finding: Finding) -> bool:
    return finding.rule in PROVABLE and finding.severity != "note"


def _with(finding: Finding, proof: str) -> Finding:
    return replace(finding, proof=proof) if _provable(finding) else finding
