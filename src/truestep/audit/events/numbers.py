"""Numbers that a format cannot hold, and what they leave behind."""

from __future__ import annotations

from dataclasses import dataclass

from truestep.audit.events.event import Event
from truestep.audit.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Overflowed(Event):
    """The first operation of a forward, or of a loss, whose result is not finite though all that it was given is."""

    operation: str
    module: str | None
    """The module's name and kind; None outside of all."""
    dtype: str
    largest: float | None
    """The largest magnitude of the same operation's result in float32; None where that could not be had."""
    in_loss: bool
    """Outside of all modules, or in one without parameters."""
    negative: bool = False
    """All that is not finite is minus infinity, as in a mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Poisoned(Event):
    """Buffers that a forward wrote are not finite, though its attempt was skipped or never made; the site is the forward's."""

    module: str
    buffers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Healed(Event):
    """By the next backward the buffers of a module that was told as poisoned are finite again."""

    module: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsafe(Event):
    """An operation under autocast that CUDA refuses there."""

    operation: str
    dtype: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Vanished(Event):
    """A small number that was added to a low-precision tensor rounds to zero in its format."""

    number: float
    dtype: str
    operation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost(Event):
    """Something was added to an accumulator of a low precision, which moved in so many of its elements."""

    dtype: str
    moved: int
    asked: int
    made: Site | None = None
    """Where the accumulator was made so; None where it was not seen."""
