"""When a CUDA device came to a place in its work: events in its stream, read once it has passed them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch


class DeviceClock:
    """Marks places in the current stream of a CUDA device, which costs the host a few microseconds each and no wait."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> Any:
        """A place: where the stream's work so far ends."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's is untyped
        event.record(torch.cuda.current_stream(self._device))
        return event

    def between(self, marks: Sequence[Any]) -> list[float]:
        """Seconds from each of `marks` to the next, idle ones included; waits until the device has passed them all."""
        for mark in marks:  # a loop may have changed the stream in between
            mark.synchronize()
        return [before.elapsed_time(after) / 1000 for before, after in pairwise(marks)]


def clock_of(device: torch.device) -> DeviceClock | None:
    """The clock of a device that works on while the host goes ahead; None for a CPU."""
    return DeviceClock(device) if device.type == "cuda" else None
