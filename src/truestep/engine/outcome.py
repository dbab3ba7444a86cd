"""What one attempt did: returned by the update, so that nobody has to infer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from truestep.engine.counts import Counts
from truestep.errors import SkipLimitError, StateError


class Reason(StrEnum):
    """Why an attempt was skipped."""

    INPUT = "non-finite input"
    PARAMETER = "non-finite parameter"
    FORWARD = "forward overflow"
    LOSS = "non-finite loss"
    UNDEFINED = "undefined gradient"
    BACKWARD = "backward overflow"
    UNSCALE = "unscale overflow"
    WEIGHT = "zero total weight"


@dataclass(frozen=True, kw_only=True)
class Skip:
    """A skipped attempt's reason, the first offender by name, and whether a smaller loss scale could cure it."""

    reason: Reason
    place: str | None
    """The first non-finite input, module or parameter; None where it could not be told."""
    detail: str
    """One sentence with what was found, and what could not be told."""
    curable: bool
    """True where a smaller loss scale can help: then, and only then, the scale moves."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One attempt, in original units. `skip` is None exactly when the attempt completed."""

    policy: str
    skip: Skip | None
    loss: float | None
    """The window's loss: the sum of the microbatches' losses by their shares. None where no loss was computed."""
    lr: tuple[float, ...]
    """The learning rate of each parameter group at this attempt, before any tick."""
    grad_norm: float | None
    """The 2-norm of the whole gradient before clipping; None on a skip."""
    grad_norm_clipped: float | None
    """The same after clipping; equal to `grad_norm` where nothing clips; None on a skip."""
    loss_scale: float
    """The loss scale that this attempt's backwards used."""
    next_loss_scale: float
    weight: float | Mapping[str, float] | None
    """The window's total weight, of each term by its name where the loss has several; None for a loss that comes as shares."""
    weight_check: str
    """What the declared weight was held against, and how that came out, term by term."""
    microbatches: int
    examples: int | None
    """The window's examples; None where an attempt() block was not told them."""
    tokens: int | None
    seconds: float
    """Wall time from the attempt's start to its end."""
    counts: Counts
    """The running totals, this attempt and its ticks included."""

    parameters_moved: bool | None = None
    """Whether any parameter changed; None where it was not tracked, and on a skip."""
    losses: Mapping[str, float] | None = None
    """The part of each term in `loss`, by its name, without the terms that weighed nothing; None where the loss has no terms."""
    seconds_by_stage: Mapping[str, float] | None = None
    """Where `seconds` went, by stage (engine/stages.py): wall time of the host, whose sum it is. On a CUDA device kernels run on
    meanwhile, and the wait for them falls to "judge". None where it was not asked for, by `time_stages=True`."""

    @property
    def completed(self) -> bool:
        """Whether the optimizer applied the update."""
        return self.skip is None

    def moved(self) -> bool:
        """Whether any parameter changed: a completed attempt may leave all of them (learning rate 0, updates below half an ulp).

        StateError where it was not tracked: that takes a copy of the parameters before each step.
        """
        if self.completed and self.parameters_moved is None:
            raise StateError("whether the parameters moved was not tracked", hint="build the update with track_moves=True")
        return bool(self.parameters_moved)


def demand_progress(outcome: Outcome, limit: int | None) -> None:
    """SkipLimitError, with the outcome, after `limit` skips in a row; None permits any number."""
    skips, skip = outcome.counts.consecutive_skips, outcome.skip
    if limit is None or skips < limit or skip is None:
        return
    raise SkipLimitError(
        f"{skips} attempts in a row were skipped; the last for {skip.reason}: {skip.detail}",
        hint="see error.outcome: reason, place, loss scale and counts; a loss scale cures backward overflows only",
        reason=str(skip.reason),
        place=skip.place or "unknown",
        loss_scale=outcome.loss_scale,
        outcome=outcome,
    )
