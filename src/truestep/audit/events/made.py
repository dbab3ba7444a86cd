"""What a loop is made of: scalers, optimizers, parameters, schedules, regions of automatic casts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from truestep.audit.events.event import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalerMade(Event):
    """A loss scaler was made."""

    scaler: int
    asked: bool
    """The `enabled` it was given."""
    enabled: bool
    """Whether it is: torch switches a scaler off where its device is missing."""
    device: str
    scale: float
    growth_interval: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerMade(Event):
    """An optimizer was made, or seen first."""

    optimizer: int
    kind: str
    fused: bool
    parameters: int
    lr: float
    eps: float | None
    momentum: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LowParameters(Event):
    """Parameters that an optimizer steps are kept in a low precision; the site is where they were made so."""

    optimizer: int
    dtype: str
    parameters: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OddGradients(Event):
    """An optimizer was given gradients that a scaler cannot unscale; the site is where their parameters were made so."""

    optimizer: int
    what: Literal["complex", "sparse float16"]
    parameters: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerMade(Event):
    """A schedule of learning rates was made."""

    scheduler: int
    kind: str
    optimizer: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Autocast(Event):
    """A region was entered that is none of torch's own; regions of the same site are told once for each setting."""

    device: str
    dtype: str
    enabled: bool
    outer: str | None
    """The dtype of the region around it; None where there is none, or one that is off."""
    asked: bool | None = None
    """The `enabled` it was given: torch switches a region off where its device is missing; None where that is not known."""
