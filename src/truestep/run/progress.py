"""How far a run has come, as it is told after each attempt: counts, clocks, quality, and what follows from them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from truestep.engine.counts import Counts
from truestep.engine.outcome import Outcome
from truestep.ledger import Alert
from truestep.run.clocks import Clocks
from truestep.run.record import Evaluation, ToTarget


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come, after each attempt."""

    candidate: str
    seed: int
    counts: Counts
    budget_attempts: int
    budget_seconds: float | None
    clocks: Clocks
    """Those of earlier processes of the run included."""
    quality: float | None
    """The last evaluation's; None before the first."""
    target: float | None
    to_target: ToTarget | None
    """None while the target has not been reached."""
    outcome: Outcome
    """The attempt's."""
    evaluation: Evaluation | None
    """The one after this attempt; None where there was none."""
    alert: Alert | None = None
    """Set where the run's alarm sounded at this attempt."""

    @property
    def evaluated(self) -> bool:
        """Whether the quality is of this attempt."""
        return self.evaluation is not None

    @property
    def seconds(self) -> float:
        """Of the primary clock."""
        return self.clocks.primary

    @property
    def examples_per_second(self) -> float:
        """Examples applied, by the primary clock: what was rolled back counts as time and as nothing else."""
        return self.counts.examples_applied / self.seconds

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens applied likewise; None where they are not counted."""
        return None if self.counts.tokens_applied is None else self.counts.tokens_applied / self.seconds

    @property
    def seconds_left(self) -> float:
        """Of the primary clock, to the end of the budget, if it goes on as it went."""
        left = self.seconds / self.counts.attempts * (self.budget_attempts - self.counts.attempts)
        return left if self.budget_seconds is None else max(0.0, min(left, self.budget_seconds - self.seconds))
