"""What moves beside the weights: schedules, averages, weights written by hand, rates."""

from __future__ import annotations

from dataclasses import dataclass

from truestep.audit.events.event import Event
from truestep.audit.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticked(Event):
    """A schedule was moved on."""

    scheduler: int
    kind: str
    optimizer: int
    number: int
    """Which tick of the scheduler it is, from 1."""
    attempts: int
    """Attempts of its optimizer since its last tick, or since it was made."""
    completed: int
    backwards: int
    metric: bool
    """Called with a metric or an epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Averaged(Event):
    """A moving average of the weights moved."""

    average: int
    by_hand: bool
    dtype: str
    number: int
    attempts: int
    completed: int
    asked: int
    """Elements of it that differ from the weights before; 0 where it was not looked."""
    moved: int
    backwards: int | None = None
    """Backwards since its last move, or since the run began."""
    made: Site | None = None
    """Where it was made low in precision; None where it is not, or that was not seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewritten(Event):
    """The script itself multiplied weights, outside of an optimizer's step and before the next backward."""

    operation: str
    optimizer: int
    ratio: float
    """What the norm of the first of them was multiplied by."""
    attempts: int
    """Attempts of the optimizer since the line did so before, or since the run began."""
    completed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Rated(Event):
    """A rate or a count that the loop computes, beside what really went through since the clock was last read."""

    expression: str
    value: float
    real_examples: int
    real_tokens: int | None
    backwards: int
    examples: int | None
    """Of one backward."""
    tokens: int | None
    skipped: int
