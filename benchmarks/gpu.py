"""What the measurements on a CUDA device share: seconds by events, the highest point of memory, and waits of the host."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.fixed import Clock


def seconds_on_device(work: Callable[[], object]) -> float:
    """From the first to the last thing that `work` gives the device, gaps in which the device waits for the host included."""
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begun.record()
    work()
    ended.record()
    torch.cuda.synchronize()
    return float(begun.elapsed_time(ended)) / 1e3


class DeviceClock(Clock):
    """Stands for `time` in a loop: its `perf_counter` waits until the device has done all it was given, and tells the wall's.

    Beside them it notes the host's processor.
    """

    def perf_counter(self) -> float:
        """Seconds by the wall."""
        torch.cuda.synchronize()
        self.beside.append(time.process_time())
        return time.perf_counter()


@dataclass(frozen=True, kw_only=True)
class Use:
    """What one contender takes of a device beside time."""

    peak_bytes: int
    """The highest point of what torch had allocated, above what there was before."""
    waits: int
    """Times that the host waited for the device."""


def use_of(work: Callable[[], Any]) -> Use:
    """That of one run; a second run counts the waits, because torch tells them by warnings."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return Use(peak_bytes=peak, waits=sum("synchronizing" in str(each.message) for each in heard))
