"""Attempts: steps, whether they completed, and what the ranks made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from truestep.audit.events.event import Event
from truestep.audit.events.values import Damage, Judged, Moved


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCalled(Event):
    """`scaler.step(optimizer)`, as it begins."""

    scaler: int
    optimizer: int
    closure: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Stepped(Event):
    """An attempt ended: the optimizer's own step, or the scaler's without one."""

    optimizer: int
    scaler: int | None
    """None where the optimizer was stepped directly."""
    completed: bool
    """Whether the optimizer's state advanced."""
    closure: bool
    """It was given a closure, and did not call it just once."""
    fused: bool
    lr: float
    backwards: tuple[int, ...]
    """The backwards since its last attempt whose gradients it was given, by number."""
    dropped: tuple[int, ...]
    """Those whose gradients were gone by then."""
    carried: float
    """The loss scale that its gradients still carried when it used them; 1 is right."""
    finite: bool | None
    """Whether its gradients were; None where it was not looked."""
    judged: Judged | None
    """None where the window was not judged."""
    damage: Damage | None
    moved: Moved | None
    first: bool
    """The optimizer's first attempt."""
    bare: bool = False
    """None of its parameters had a gradient."""
    unset: bool = False
    """It has momentum, and before this attempt there was none of it yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Updated(Event):
    """A scaler was told to move its scale."""

    scaler: int
    before: float
    after: float
    by_hand: bool
    """Called with a new scale."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks(Event):
    """What the ranks did differently: in one attempt of one optimizer, each rank's value."""

    what: Literal["gradient", "completed", "scale", "weight"]
    """`weight`: what each rank's loss gives all of its elements together."""
    optimizer: int
    values: tuple[float, ...]
    backwards: tuple[int, ...] = ()
    """The attempt's backwards, by number."""
    attempted: bool = True
    """Whether every rank came to the attempt, completed or not."""
