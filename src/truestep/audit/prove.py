"""Proof of a finding: the script again for a few updates with the right gradients, beside the run as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from truestep.audit.finding import Finding
from truestep.audit.process import Audited, audit
from truestep.audit.story import Story

UPDATES = 12
"""Attempts of the re-run: those that are judged without a gap."""

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
    return Course(losses=tuple(losses[:attempts])) if len(losses[:attempts]) > 1 else None


def prove(audited: Audited, command: Sequence[str], *, module: bool = False, device: str | None = None) -> Audited:
    """The same findings, those about gradients with what a re-run gave; the script runs once more, in silence, and is changed.

    It runs for at most `UPDATES` attempts, with all that it does beside training: it writes its files again. Where it ends
    before two attempts, or no finding can be proved so, nothing is run or nothing is said.
    """
    if not any(finding.rule in PROVABLE and finding.severity != "note" for finding in audited.findings) or not audited.stories:
        return audited
    again = audit(command, module=module, max_updates=UPDATES, device=device, silent=True, right=True)
    if not again.stories:
        return audited
    proof = compared(course(audited.stories[0], UPDATES), course(again.stories[0], UPDATES))
    return replace(audited, findings=tuple(_with(finding, proof) for finding in audited.findings))


def compared(wrong: Course | None, right: Course | None) -> str | None:
    """In words, how the loss went with the right gradients and without, over as many attempts as both have."""
    if wrong is None or right is None:
        return None
    both = min(len(wrong.losses), len(right.losses))
    wrong, right = Course(losses=wrong.losses[:both]), Course(losses=right.losses[:both])
    return f"{both} updates with the right gradient took the loss from {right.words}; as the script stands, from {wrong.words}"


def _with(finding: Finding, proof: str | None) -> Finding:
    return replace(finding, proof=proof) if finding.rule in PROVABLE and finding.severity != "note" else finding
