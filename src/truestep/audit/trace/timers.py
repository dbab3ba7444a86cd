"""The clocks that a script reads: what it divides by the time between two readings, beside what went through the model."""

from __future__ import annotations

import math
import sys
import time
import timeit
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
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

CLOCKS = ("time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "monotonic_ns")
READINGS = 4096
"""Readings whose moment is known; of older ones only the first is, of each line."""
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
        self._whose: dict[CodeType, bool] = {}
        self._rates: dict[str, dict[int, list[Rate]]] = {}
        self._looked: Counter[int] = Counter()
        self._moments: OrderedDict[float, Moment] = OrderedDict()
        self._firsts: dict[tuple[CodeType, int], tuple[float, Moment]] = {}

    def note(self, event: Event, frame: FrameType) -> None:
        """Something happened in `frame`, or was called from there."""
        self.throughput.note(event)
        self._tallies.note(event, frame)

    def watched(self, clock: Callable[[], Any]) -> Callable[[], Any]:
        """A clock that gives what `clock` gives."""
        read, whose = self._recorder.guard(self._read), self._whose
        this = self

        @wraps(clock)
        def watched() -> Any:
            value = clock()
            frame = sys._getframe(1)
            asked = whose.get(frame.f_code)
            if asked is None:
                asked = this._asked(frame.f_code)
            if asked:
                read(value, frame)
            return value

        return watched

    def _asked(self, code: CodeType) -> bool:
        """Whether a reading of this code's is the script's: its own, or that of a constructor that was made for it."""
        found = frames.owner(code.co_filename) == "user" or code.co_filename == "<string>"
        self._whose[code] = found
        return found

    def _read(self, value: float, frame: FrameType) -> None:
        moment = self.throughput.now()
        rates = self._of_file(frame.f_code.co_filename).get(frame.f_lineno, ())
        for rate in rates:
            if self._looked[id(rate)] < OFTEN and moment.backwards:
                self._looked[id(rate)] += 1
                self._rate(rate, frame, moment)
        self._moments[float(value)] = moment
        self._firsts.setdefault((frame.f_code, frame.f_lineno), (float(value), moment))
        if len(self._moments) > READINGS:
            self._moments.popitem(last=False)

    def _of_file(self, path: str) -> dict[int, list[Rate]]:
        if path not in self._rates:
            names = None if path == "<string>" else self._sources.names(path)
            self._rates[path] = {} if names is None else Rates(names, self._sources.flow).by_line
        return self._rates[path]

    def _rate(self, rate: Rate, frame: FrameType, moment: Moment) -> None:
        with looking_into(frame) as views, torch._C.DisableTorchFunction():
            peek = Peek(views)
            start = self._moment(peek.number(rate.interval.start))
            stretch = None if start is None else self.throughput.between(start, moment)
            values = () if stretch is None else tuple(_values(peek, rate.counted))
        if stretch is None:
            return
        found = matched(values, stretch, world())
        if found is not None and stretch.examples is not None:
            value, tokens = found
            self._recorder.emit(
                Rated,
                site=_site(rate, frame),
                expression=rate.expression,
                value=value,
                real_examples=round(stretch.examples.total),
                real_tokens=None if tokens is None else round(tokens.total),
                backwards=stretch.backwards,
                examples=round(stretch.examples.one),
                tokens=None if tokens is None else round(tokens.one),
                skipped=stretch.skipped,
            )

    def _moment(self, value: float | None) -> Moment | None:
        if value is None:
            return None
        return self._moments.get(value) or dict(self._firsts.values()).get(value)


def matched(values: tuple[float, ...], stretch: Stretch, ranks: int) -> tuple[float, Amount | None] | None:
    """The value that is all of a stretch, or one backward of it for each attempt or for all; None where none is any of these.

    With it the tokens that it was held against, None where it was the examples. Each value is one reading of the same product.
    """
    ways = (stretch.examples, *stretch.tokens)
    for fits in (_all, _part):
        for amount in ways:
            for value in values if amount is not None else ():
                for each in {value, value / ranks}:
                    if amount is not None and fits(each, amount, stretch):
                        return each, None if amount is stretch.examples else amount
    return None


def _all(value: float, amount: Amount, stretch: Stretch) -> bool:
    return _is(value, amount.total)


def _part(value: float, amount: Amount, stretch: Stretch) -> bool:
    if stretch.backwards == 1 or amount.one <= 0:
        return False
    times = {1, stretch.attempts} - {stretch.backwards} if amount.equal else {1}
    return any(_is(value, amount.one * each) for each in times)


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
