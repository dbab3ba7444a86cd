"""What went through the model, attempt by attempt, so that any stretch of the run can be counted again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from truestep.audit.events import Backward, Event, Stepped
from truestep.audit.site import Site

AT_MOST = 1_000_000
"""Backwards that are kept; a stretch that reaches further is not counted."""


MANY = 256
"""Backwards among which the most common size is looked for."""


class Pass(NamedTuple):
    """A forward and its backward."""

    line: tuple[str, int] | None
    forward: tuple[str, int] | None
    forwards: int
    examples: int | None
    tokens: int | None
    scored: float | None


class Attempt(NamedTuple):
    """One attempt of an optimizer."""

    optimizer: int
    completed: bool
    closure: bool
    backwards: tuple[int, ...]


class Moment(NamedTuple):
    """How many backwards and attempts there had been."""

    backwards: int
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Amount:
    """What passed in one unit."""

    one: float
    """In the backward that is like most others, or in the last where all differ."""
    total: float
    equal: bool
    """Whether each backward had as much."""
    last: float | None = None
    """In the last one, where no size is that of most."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Whole attempts of the same kind, each used by every optimizer of them."""

    examples: Amount | None
    tokens: tuple[Amount, ...]
    """In each way that there is: the model's input, the same before a shift took one of each example, the loss's terms."""
    backwards: int
    attempts: int
    skipped: int


class Throughput:
    """All passes and attempts of a run."""

    def __init__(self) -> None:
        self._passes: list[Pass] = []
        self._attempts: list[Attempt] = []
        self._alike: dict[Pass, Pass] = {}
        self._first: int | None = None
        self.moment = Moment(0, 0)
        """How far the run is."""

    def note(self, event: Event) -> None:
        """Keeps what matters of an event."""
        if isinstance(event, Backward) and len(self._passes) < AT_MOST:
            self._first = event.number if self._first is None else self._first
            scored = None if event.share is None else event.share.elements
            one = Pass(_line(event.site), _line(event.forward), event.forwards, event.examples, event.tokens, scored)
            self._passes.append(self._alike.setdefault(one, one))
        elif isinstance(event, Stepped):
            self._attempts.append(Attempt(event.optimizer, event.completed, event.closure, event.backwards))
        self.moment = Moment(len(self._passes), len(self._attempts))

    def between(self, start: Moment, end: Moment) -> Stretch | None:
        """What went through; None where that is not whole attempts of one line's backwards, each with its own forward."""
        passes = self._passes[start.backwards : end.backwards]
        attempts = self._attempts[start.attempts : end.attempts]
        if not passes or self._first is None or len(self._passes) == AT_MOST:
            return None
        numbers = list(range(self._first + start.backwards, self._first + end.backwards))
        optimizers = {each.optimizer for each in attempts}
        if not optimizers or any(each.closure for each in attempts):
            return None
        if any(_used(attempts, optimizer) != numbers for optimizer in optimizers):
            return None
        if len({(each.line, each.forward) for each in passes}) > 1 or any(each.forwards != 1 for each in passes):
            return None
        one = [each for each in attempts if each.optimizer == min(optimizers)]
        return Stretch(
            examples=_amount(each.examples for each in passes),
            tokens=_ways(passes),
            backwards=len(passes),
            attempts=len(one),
            skipped=sum(not each.completed for each in one),
        )


def _ways(passes: Sequence[Pass]) -> tuple[Amount, ...]:
    shifted = [None if each.tokens is None or each.examples is None else each.tokens + each.examples for each in passes]
    ways = (_amount(each.tokens for each in passes), _amount(shifted), _amount(each.scored for each in passes))
    return tuple(each for each in ways if each is not None)


def _amount(values: Iterable[float | None]) -> Amount | None:
    known = list(values)
    if any(each is None for each in known):
        return None
    numbers = [each for each in known if each is not None]
    one = max(reversed(numbers), key=numbers.count) if len(numbers) <= MANY else numbers[-1]
    rare = len(numbers) > MANY or 2 * numbers.count(one) <= len(numbers)
    last = numbers[-1] if rare else None
    return Amount(one=one, total=math.fsum(numbers), equal=len(set(numbers)) == 1, last=last)


def _used(attempts: Sequence[Attempt], optimizer: int) -> list[int]:
    return sorted(number for each in attempts if each.optimizer == optimizer for number in each.backwards)


def _line(site: Site | None) -> tuple[str, int] | None:
    return None if site is None else (site.path, site.line)
