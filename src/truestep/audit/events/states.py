"""What is kept and brought back, and how the script ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from truestep.audit.events.event import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved(Event):
    """`torch.save`: how many states of each kind it holds, and the backwards that no step had used by then."""

    models: int
    optimizers: int
    scalers: int
    schedulers: int
    open: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded(Event):
    """`torch.load`, likewise."""

    models: int
    optimizers: int
    scalers: int
    schedulers: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored(Event):
    """`load_state_dict` of an optimizer, a scaler or a scheduler."""

    what: Literal["optimizer", "scaler", "scheduler"]
    which: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Raised(Event):
    """The exception that ended the script."""

    kind: str
    text: str
    compiled: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unjudged(Event):
    """Something that the audit could not see through."""

    what: str
    why: str
