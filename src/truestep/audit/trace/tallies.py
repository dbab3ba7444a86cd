"""Counters that a script takes for updates, read at each backward: how far they moved within each attempt."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, replace
from types import CodeType, FrameType

import torch

from truestep.audit.events import Backward, Event, Rated
from truestep.audit.reading.counts import Claim, claims
from truestep.audit.reading.flow import Item
from truestep.audit.reading.names import Names
from truestep.audit.reading.peek import Peek, shows
from truestep.audit.site import Place, Site
from truestep.audit.sources import Sources
from truestep.audit.trace.looking import DEPTH, belongs, looking_into, seen
from truestep.audit.trace.recorder import Recorder
from truestep.audit.trace.throughput import Moment, Throughput

OFTEN = 256
"""How often one counter is read."""
NO_LINE = sys.maxsize
"""Later than any: a counter is read as it stands."""


@dataclass(kw_only=True)
class Tally:
    """One counter, with its value at the last backward."""

    claim: Claim
    item: Item
    value: float | None = None
    moment: Moment | None = None
    """When its window began."""
    attempts: int = 0
    reads: int = 0


class Tallies:
    """The counters of every file that a backward is called in."""

    def __init__(self, recorder: Recorder, sources: Sources, throughput: Throughput) -> None:
        self._recorder = recorder
        self._sources = sources
        self._throughput = throughput
        self._tallies: dict[str, list[Tally]] = {}
        self._of_code: dict[int, tuple[CodeType, list[Tally]]] = {}

    def note(self, event: Event, frame: FrameType | None) -> None:
        """Reads the counters in reach of a backward."""
        if not isinstance(event, Backward):
            return
        depth = 0
        while frame is not None and depth < DEPTH:
            if belongs(frame.f_code):
                depth += 1
                for tally in self._in(frame.f_code):
                    if tally.reads < OFTEN:
                        tally.reads += 1
                        self._read(tally, frame)
            frame = frame.f_back

    def _in(self, code: CodeType) -> list[Tally]:
        if id(code) not in self._of_code:
            path = code.co_filename
            if path not in self._tallies:
                names = self._sources.names(path)
                found = [] if names is None else list(claims(names))
                self._tallies[path] = [Tally(claim=each, item=_item(each, names)) for each in found if names is not None]
            here = [each for each in self._tallies[path] if _counts_in(each, code)]
            self._of_code[id(code)] = code, here
        return self._of_code[id(code)][1]

    def _read(self, tally: Tally, frame: FrameType) -> None:
        with looking_into(frame) as views, torch._C.DisableTorchFunction():
            value = Peek([replace(each, line=NO_LINE) for each in views[:1]]).number(tally.item)
        now = self._throughput.moment
        before = Moment(now.backwards - 1, now.attempts)
        if value is None or (tally.value is not None and value - tally.value != 1):
            tally.reads = OFTEN  # it does not count backwards
        elif tally.moment is None or now.attempts > tally.attempts:
            if tally.moment is not None:
                self._emit(tally, frame, tally.moment, before)
            tally.moment, tally.attempts = before, now.attempts
        tally.value = value

    def _emit(self, tally: Tally, frame: FrameType, start: Moment, end: Moment) -> None:
        stretch = self._throughput.between(start, end)
        if stretch is None or stretch.examples is None or stretch.attempts != 1:
            return
        if (tally.claim.updates and stretch.backwards > 1) or (tally.claim.ends and stretch.skipped):
            node = tally.claim.node
            place = Place(path=frame.f_code.co_filename, line=node.lineno, function=frame.f_code.co_name)
            self._recorder.emit(
                Rated,
                site=Site(place=place),
                expression=tally.claim.name,
                value=float(stretch.backwards),
                real_examples=round(stretch.examples.total),
                real_tokens=None,
                backwards=stretch.backwards,
                examples=None,
                tokens=None,
                skipped=stretch.skipped,
            )


def _item(claim: Claim, names: Names) -> Item:
    return Item(node=claim.node.target, names=names)


def _counts_in(tally: Tally, code: CodeType) -> bool:
    scope = tally.item.names.text.scope(tally.claim.node)
    return shows(seen(code), scope) and not isinstance(scope, ast.ClassDef)
