"""What a run did, as rules read it: its events in order, and the windows that led to each attempt of each optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from truestep.audit.events import Backward, Event, OptimizerMade, ScalerMade, Stepped
from truestep.audit.sources import Sources

Kind = TypeVar("Kind", bound=Event)


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Exact counts of the whole run, of what the events leave out too; by optimizer, then added up."""

    backwards: int = 0
    attempts: dict[int, int] = field(default_factory=dict)
    completed: dict[int, int] = field(default_factory=dict)
    windows_left_out: int = 0
    """Windows like many before them, of which no event is kept."""

    def skipped(self, optimizer: int) -> int:
        """The attempts of an optimizer that did not complete."""
        return self.attempts.get(optimizer, 0) - self.completed.get(optimizer, 0)


@dataclass(frozen=True, kw_only=True)
class Window:
    """All that happened between two attempts of one optimizer, the second one included."""

    optimizer: int
    number: int
    """From 1, among the kept windows of its optimizer."""
    events: tuple[Event, ...]
    step: Stepped | None
    """None for what was left when the run ended."""

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """Its events of one kind, in order; those that name optimizers only where this one is among them."""
        return tuple(event for event in self.events if isinstance(event, kind) and _concerns(event, self.optimizer))

    @cached_property
    def backwards(self) -> tuple[Backward, ...]:
        """Those that reached the optimizer's parameters, used or not."""
        return self.of(Backward)

    @cached_property
    def used(self) -> tuple[Backward, ...]:
        """Those whose gradients the optimizer was given."""
        numbers = () if self.step is None else self.step.backwards
        return tuple(backward for backward in self.backwards if backward.number in numbers)

    def after(self, event: Event, kind: type[Kind]) -> tuple[Kind, ...]:
        """Its events of one kind after `event`."""
        return tuple(each for each in self.of(kind) if each.order > event.order)

    def before(self, event: Event, kind: type[Kind]) -> tuple[Kind, ...]:
        """Its events of one kind before `event`."""
        return tuple(each for each in self.of(kind) if each.order < event.order)


@dataclass(frozen=True, kw_only=True)
class Story:
    """One process's run."""

    events: tuple[Event, ...]
    totals: Totals = field(default_factory=Totals)
    sources: Sources = field(default_factory=Sources)
    rank: int | None = None
    """The process's rank, where there are several."""

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """All kept events of one kind, in order."""
        return tuple(event for event in self.events if isinstance(event, kind))

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """Every kept window of every optimizer, in the order of their attempts; what was left at the end comes last."""
        return tuple(self._windows())

    def windows_of(self, optimizer: int) -> tuple[Window, ...]:
        """Likewise, of one optimizer."""
        return tuple(window for window in self.windows if window.optimizer == optimizer)

    @cached_property
    def scalers(self) -> dict[int, ScalerMade]:
        """Each scaler that was made while the audit watched."""
        return {event.scaler: event for event in self.of(ScalerMade)}

    @cached_property
    def optimizers(self) -> dict[int, OptimizerMade]:
        """Each optimizer likewise."""
        return {event.optimizer: event for event in self.of(OptimizerMade)}

    @cached_property
    def backwards(self) -> dict[int, Backward]:
        """Each kept backward by its number."""
        return {event.number: event for event in self.of(Backward)}

    @cached_property
    def used_by_any(self) -> frozenset[int]:
        """The numbers of all backwards whose gradients some optimizer was given."""
        return frozenset(number for step in self.of(Stepped) for number in step.backwards)

    def _windows(self) -> Iterator[Window]:
        begun: dict[int, int] = {}
        numbers: dict[int, int] = {}
        for place, event in enumerate(self.events):
            if isinstance(event, Stepped):
                start = begun.get(event.optimizer, 0)
                numbers[event.optimizer] = numbers.get(event.optimizer, 0) + 1
                begun[event.optimizer] = place + 1
                yield Window(
                    optimizer=event.optimizer,
                    number=numbers[event.optimizer],
                    events=self.events[start : place + 1],
                    step=event,
                )
        reached = {optimizer for event in self.of(Backward) for optimizer in event.touched}
        for optimizer in sorted(reached | set(begun)):
            rest = self.events[begun.get(optimizer, 0) :]
            if any(isinstance(event, Backward) and optimizer in event.touched for event in rest):
                yield Window(optimizer=optimizer, number=numbers.get(optimizer, 0) + 1, events=rest, step=None)


def _concerns(event: Event, optimizer: int) -> bool:
    if isinstance(event, Backward):
        return optimizer in event.touched
    several = getattr(event, "optimizers", None)
    if several is not None:
        return optimizer in several
    return getattr(event, "optimizer", optimizer) == optimizer
