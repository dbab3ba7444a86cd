"""The rivals' fixed files, loaded as they stand, each time anew: what they take from their command line is given here."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def fixed(name: str, *arguments: int) -> Any:
    """The module `name`, as if it had been called with `arguments`."""
    spec = importlib.util.spec_from_file_location(f"benchmarks.{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    called, sys.argv = sys.argv, [f"{name}.py", *map(str, arguments)]
    try:
        spec.loader.exec_module(module)
    finally:
        sys.argv = called
    return module


class Clock:
    """Stands for `time` in a fixed file: its `perf_counter` tells the processor's seconds, and notes the wall's beside them."""

    def __init__(self) -> None:
        self.beside: list[float] = []

    def perf_counter(self) -> float:
        """Seconds of this process."""
        self.beside.append(time.perf_counter())
        return time.process_time()

    def beside_seconds(self) -> float:
        """By the other clock, between the last two looks."""
        begun, ended = self.beside[-2:]
        return ended - begun


def way(found: Sequence[Any], wanted: Sequence[Any], begun: Sequence[Any]) -> float:
    """How far apart two trainings of the same weights have ended, as a share of the way they have gone; by root mean squares.

    One that left out an update, clipped otherwise or scaled otherwise is off by some tenths.
    """
    apart = sum(float((one.detach() - other.detach()).double().square().sum()) for one, other in zip(found, wanted, strict=True))
    gone = sum(float((one.detach() - other.detach()).double().square().sum()) for one, other in zip(wanted, begun, strict=True))
    return (apart / gone) ** 0.5
