"""The clock of a device reads events of its stream; the device itself is played by a list of times."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from truestep.timing.device import DeviceClock, clock_of


class Event:
    """An event that a device passes at the next of its `times`, in milliseconds, and that is read only when it was waited for."""

    times: list[float] = []  # noqa: RUF012 - set by the test

    def __init__(self, *, enable_timing: bool = False) -> None:
        assert enable_timing
        self.stream: str | None = None
        self.ready = False

    def record(self, stream: str) -> None:
        self.stream, self.time = stream, self.times.pop(0)

    def synchronize(self) -> None:
        self.ready = True

    def elapsed_time(self, later: Event) -> float:
        assert self.ready
        assert later.ready
        return later.time - self.time


def test_between_marks_of_the_current_stream_lie_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: asked.append(device) or "the current one")
    monkeypatch.setattr(Event, "times", [5.0, 7.0, 7.0, 1007.0])
    clock = DeviceClock(torch.device("cuda:1"))
    marks = [clock.mark() for _ in range(4)]
    assert asked == [torch.device("cuda:1")] * 4
    assert [mark.ready for mark in marks] == [False] * 4, "marking waits for nothing"
    assert clock.between(marks) == [0.002, 0.0, 1.0]


def test_a_processor_has_no_clock_of_its_own() -> None:
    assert clock_of(torch.device("cpu")) is None
    assert isinstance(clock_of(torch.device("cuda", 0)), DeviceClock)
