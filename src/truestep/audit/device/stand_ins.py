"""Stand-ins for a GPU's own objects: its properties, and streams and events where all work is done in the CPU's order."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

GIB = 1024**3

NAME = "CPU in place of CUDA"


@dataclass(frozen=True, kw_only=True)
class Properties:
    """What `get_device_properties` gives: the CPU's stand-in, whose capability is that of a GPU with bfloat16."""

    name: str = NAME
    major: int = 8
    minor: int = 0
    total_memory: int = 16 * GIB
    multi_processor_count: int = 1
    warp_size: int = 32
    max_threads_per_multi_processor: int = 1024
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 48 * 1024
    shared_memory_per_multiprocessor: int = 48 * 1024
    L2_cache_size: int = 0
    is_integrated: bool = False
    is_multi_gpu_board: bool = False

    def __str__(self) -> str:
        """In a few words, for the report."""
        return f"{self.name}, capability {self.major}.{self.minor}"


class Event:
    """A point in the CPU's own order of work: what was recorded is over."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._seconds: float | None = None

    def record(self, stream: Any = None) -> None:
        """Reads the clock."""
        self._seconds = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds between the two records."""
        if self._seconds is None or end._seconds is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end._seconds - self._seconds) * 1e3

    def query(self) -> bool:
        """Whether the work before it is done."""
        return True

    def wait(self, stream: Any = None) -> None:
        """Nothing is to be waited for."""

    def synchronize(self) -> None:
        """Likewise."""


class Stream:
    """The one order of work that the CPU has."""

    cuda_stream = 0
    device = torch.device("cuda", 0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        """An event of now."""
        event = Event() if event is None else event
        event.record()
        return event

    def query(self) -> bool:
        """Whether its work is done."""
        return True

    def wait_stream(self, stream: Any) -> None:
        """Nothing is to be waited for."""

    def wait_event(self, event: Any) -> None:
        """Likewise."""

    def synchronize(self) -> None:
        """Likewise."""

    def __enter__(self) -> Stream:
        """The stream, which all work goes to anyway."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing is to be waited for."""


class Region(nullcontext[None]):
    """`with torch.cuda.stream(...)` and `with torch.cuda.device(...)`: there is one stream, and one device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
