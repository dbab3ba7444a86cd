"""What the device's own allocator says of an attempt, workspaces inside of kernels included: its highest point in each phase."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

import torch

from truestep.footprint.log import Phase

_MARK = "truestep memory: "


class Allocator(Protocol):
    """Entered before an attempt; `phases` is there afterwards: bytes above those of the start, by phase."""

    phases: dict[Phase, int]

    def turn(self, phase: Phase) -> None:
        """From now on it is this phase."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End."""


class CpuAllocator:
    """Torch's events of the CPU allocator: each block that came or went, inside of kernels too.

    What a library allocates past torch (oneDNN's scratch space) is not in them.
    """

    def __init__(self) -> None:
        self.phases: dict[Phase, int] = {}
        self._profile: Any = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        self._mark: Any = None

    def turn(self, phase: Phase) -> None:
        """Marks the place among the events."""
        self._leave()
        self._mark = torch.profiler.record_function(_MARK + phase)
        self._mark.__enter__()

    def __enter__(self) -> Self:
        """Begin to note events."""
        with _quiet():
            self._profile.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Read the events."""
        self._leave()
        self._profile.__exit__(kind, error, trace)
        if kind is None:
            self.phases = _highest(self._profile.profiler.kineto_results.events())

    def _leave(self) -> None:
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None


class CudaAllocator:
    """Torch's counters of the caching allocator: bytes handed out, each rounded up to 512; not what it has reserved.

    The device's peak counters are reset on the way, for torch has one of them that everyone shares.
    """

    def __init__(self, device: torch.device) -> None:
        self.phases: dict[Phase, int] = {}
        self._device = device
        self._start = 0
        self._phase: Phase | None = None

    def turn(self, phase: Phase) -> None:
        """Reads the highest point since the last turn, and forgets it. The counters move at the call, not when kernels run."""
        self._read()
        self._phase = phase

    def __enter__(self) -> Self:
        """Note where the counter stands."""
        torch.cuda.synchronize(self._device)
        self._start = torch.cuda.memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Read the last phase."""
        self._read()

    def _read(self) -> None:
        if self._phase is not None:
            highest = torch.cuda.max_memory_allocated(self._device) - self._start
            self.phases[self._phase] = max(self.phases.get(self._phase, highest), highest)
        torch.cuda.reset_peak_memory_stats(self._device)


@contextmanager
def _quiet() -> Iterator[None]:
    """The profiler's library says on stderr that it begins, and that there is no GPU; it asks once how loud it may be."""
    name = "KINETO_LOG_LEVEL"
    chosen = name in os.environ  # by the user, whose word stands
    os.environ.setdefault(name, "99")
    try:
        yield
    finally:
        if not chosen:
            del os.environ[name]


def allocator_of(device: torch.device) -> Allocator:
    """The one of a device that the engine runs on."""
    return CudaAllocator(device) if device.type == "cuda" else CpuAllocator()


def _highest(events: list[Any]) -> dict[Phase, int]:
    """The highest point of each phase, from the profiler's events of blocks and of marks."""
    marks = sorted((e.start_ns(), e.name().removeprefix(_MARK)) for e in events if e.name().startswith(_MARK))
    blocks = sorted(((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"), key=lambda block: block[0])
    found: dict[Any, int] = {}
    held, place = 0, -1
    for moment, size in blocks:
        while place + 1 < len(marks) and marks[place + 1][0] <= moment:
            place += 1
            found[marks[place][1]] = max(found.get(marks[place][1], held), held)
        held += size
        if place >= 0:
            found[marks[place][1]] = max(found[marks[place][1]], held)
    return found
