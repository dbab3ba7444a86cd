"""The clocks that a script reads: what it divides by the time between two readings, beside what went through the model."""

from __future__ import annotations

import math
import sys
import time
import timeit
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from types import CodeType, FrameType
from typing import Any

import torch

from truestep.audit.events import Event, Rated
from truestep.audit.reading.peek import Peek, world
from truestep.audit.reading.rates import Factor, Rate, Rates
from truestep.audit.site import Place, Site
from truestep.audit.sources import Sources
from truestep.audit.trace import frames
from truestep.audit.trace.looking import looking_into
from truestep.audit.trace.patches import Patches
from truestep.audit.trace.recorder import Recorder
from truestep.audit.trace.tallies import Tallies
from truestep.audit.trace.throughput import Amount, Moment, Stretch, Throughput
from truestep.probe.owners import OWNERS

CLOCKS = ("time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "monotonic_ns")
READINGS = 8192
"""Readings whose moment is known at once."""
FIRST = 256
"""Of these, how many of the first are never forgotten."""
NOTHING = (None, None)
"""What is known of a code where the audit failed."""
OFTEN = 64
"""How often one rate is looked at."""
UNITS = frozenset({60, 3600, 1024, 1024**2, 1024**3, *(10**n for n in (1, 2, 3, 6, 9, 12))})
"""Numbers that turn a unit into another one."""


def install(recorder: Recorder, patches: Patches) -> None:
    """Puts the clocks in place of time's, and listens to the recorder's events."""
    timers = Timers(recorder)
    emit, note = recorder.emit, recorder.guard(timers.note)

    def emitting(kind: type[Any], /, **fields: Any) -> Any:
        event = emit(kind, **fields)
        note(event, sys._getframe(1))
        return event

    patches.replace(recorder, "emit", emitting)
    for name in CLOCKS:
        patches.replace(time, name, timers.watched(getattr(time, name)))
    patches.replace(timeit, "default_timer", time.perf_counter)


class Timers:
    """What is known of each reading of a clock, and of the rates of each file."""

    def __init__(self, recorder: Recorder) -> None:
        self.throughput = Throughput()
        self._recorder = recorder
        self._sources = Sources()
        self._tallies = Tallies(recorder, self._sources, self.throughput)
        self._rates: dict[int, tuple[CodeType, Mapping[int, list[Rate]] | None]] = {}
        """By the identity of a code, which hashes slowly; it is kept so that no other gets the same."""
        self._files: dict[str, Mapping[int, list[Rate]]] = {}
        self._looked: Counter[int] = Counter()
        self._moments: dict[float, Moment] = {}

    def note(self, event: Event, frame: FrameType) -> None:
        """Something happened in `frame`, or was called from there."""
        self.throughput.note(event)
        self._tallies.note(event, frame)

    def watched(self, clock: Callable[[], Any]) -> Callable[[], Any]:
        """A clock that gives what `clock` gives."""
        by_code, moments, throughput = self._rates, self._moments, self.throughput
        learn, look, forget = self._recorder.guard(self._learn), self._recorder.guard(self._look), self._forget

        @wraps(clock)
        def watched() -> Any:  # some scripts read the clock millions of times: this costs them less than a microsecond
            value = clock()
            frame = sys._getframe(1)
            code = frame.f_code
            rates = (by_code.get(id(code)) or learn(code) or NOTHING)[1]
            if rates is not None:
                if frame.f_lineno in rates:
                    look(rates[frame.f_lineno], frame)
                moments[float(value)] = throughput.moment
                if len(moments) > READINGS:
                    forget()
            return value

        return watched

    def _learn(self, code: CodeType) -> tuple[CodeType, Mapping[int, list[Rate]] | None]:
        """Whether a reading of this code's is the script's: its own, or that of a constructor that was made for it."""
        path = code.co_filename
        rates: Mapping[int, list[Rate]] | None = {} if path == "<string>" else None
        if OWNERS[path] == "user":
            if path not in self._files:
                names = self._sources.names(path)
                self._files[path] = {} if names is None else Rates(names, self._sources.flow).by_line
            rates = self._files[path]
        self._rates[id(code)] = (code, rates)
        return code, rates

    def _look(self, rates: Sequence[Rate], frame: FrameType) -> None:
        moment = self.throughput.moment
        for rate in rates:
            if self._looked[id(rate)] < OFTEN and moment.backwards:
                self._looked[id(rate)] += 1
                self._rate(rate, frame, moment)

    def _forget(self) -> None:
        """Leaves the first readings, among which a run's start is, and the last ones."""
        readings = list(self._moments.items())
        self._moments.clear()
        self._moments.update(readings[:FIRST] + readings[-READINGS // 2 :])

    def _rate(self, rate: Rate, frame: FrameType, moment: Moment) -> None:
        with looking_into(frame) as views, torch._C.DisableTorchFunction():
            peek = Peek(views)
            reading = peek.number(rate.interval.start)
            start = None if reading is None else self._moments.get(reading)
            stretch = None if start is None else self.throughput.between(start, moment)
            values = () if stretch is None else tuple(_values(peek, rate.counted))
        if stretch is None:
            return
        value, amount = matched(values, stretch, world())
        examples = stretch.examples
        if value is not None and examples is not None:
            tokens = None if amount is examples else amount
            self._recorder.emit(
                Rated,
                site=_site(rate, frame),
                expression=rate.expression,
                value=value,
                real_examples=round(examples.total),
                real_tokens=None if tokens is None else round(tokens.total),
                backwards=stretch.backwards,
                examples=None if amount is None else round(_one(value, examples)),
                tokens=None if tokens is None else round(_one(value, tokens)),
                skipped=stretch.skipped,
            )


def matched(values: tuple[float, ...], stretch: Stretch, ranks: int) -> tuple[float | None, Amount | None]:
    """The value that is all of a stretch, or else one backward of it, once or for each attempt; with the amount it is of.

    `values` are readings of one product. Where none is any of these, or it may as well count attempts, there is no amount.
    """
    ways = [each for each in (stretch.examples, *stretch.tokens) if each is not None]
    for fits in (_all, _part):
        for amount in ways:
            for each in (value / rank for value in values for rank in {1, ranks}):
                if fits(each, amount, stretch):
                    return each, amount
    return next(iter(values), None), None


def _all(value: float, amount: Amount, stretch: Stretch) -> bool:
    return _is(value, amount.total)


def _part(value: float, amount: Amount, stretch: Stretch) -> bool:
    if amount.one <= 1 or value in (stretch.attempts, stretch.backwards):
        return False
    times = {1, stretch.attempts} - {stretch.backwards} if amount.equal else {1}
    return stretch.backwards > 1 and (any(_is(value, amount.one * each) for each in times) or value == amount.last)


def _one(value: float, amount: Amount) -> float:
    """What one backward had, as far as it was counted."""
    return value if value == amount.last else amount.one


def _is(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=1e-9)


def _values(peek: Peek, factors: tuple[Factor, ...]) -> Iterator[float]:
    """The product, with and without the literal numbers in it that only turn one unit into another."""
    product, units = 1.0, 1.0
    for factor in factors:
        value = peek.number(factor.item)
        if not value:
            return
        value = 1 / value if factor.inverse else value
        literal = getattr(factor.item.node, "value", None)
        if literal in UNITS or (isinstance(literal, float) and literal and round(1 / literal) in UNITS):
            units *= value
        else:
            product *= value
    yield from {product, product * units}


def _site(rate: Rate, frame: FrameType) -> Site | None:
    """The rate's own line; where it counts what it was given, the line that gave it."""
    here = frames.here(frame)
    if here is None:
        return None
    if rate.caller and here.callers:
        return Site(place=here.callers[0], callers=here.callers[1:])
    return Site(place=Place(path=here.path, line=rate.line, function=rate.function), callers=here.callers)
