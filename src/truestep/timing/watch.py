"""One attempt as a profile sees it: told of its stages by the engine, and numbers in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch

from truestep.engine.outcome import Outcome
from truestep.timing.device import clock_of
from truestep.timing.measured import Attempted
from truestep.timing.trace import Ranges, is_recording


class AttemptWatch:
    """What the engine tells of an attempt that has just begun; `over` is called with this when it has ended.

    Its stages are ranges of whatever torch.profiler records in this thread. Where it is timed, marks in the stream of a CUDA
    device follow each other at their turns.
    """

    def __init__(
        self,
        over: Callable[[AttemptWatch], None],
        device: torch.device,
        *,
        update: int,
        is_timed: bool,
        is_traced: bool,
        seconds_since: float | None,
    ) -> None:
        self._over, self._update, self._since = over, update, seconds_since
        self.is_timed, self.is_traced = is_timed, is_traced
        self.outcome: Outcome | None = None
        """None until the attempt has ended, and after an exception."""
        self.in_a_trace = is_recording()
        self._ranges = Ranges() if self.in_a_trace else None
        self._seconds: Mapping[str, float] = {}
        self._clock = clock_of(device) if is_timed else None
        self._marks: list[tuple[str, Any]] = []
        self._mark("zero")

    def turn(self, stage: str) -> None:
        """A stage begins."""
        self._mark(stage)
        if self._ranges is not None:
            self._ranges.turn(stage)

    def end(self, outcome: Outcome | None, seconds_by_stage: Mapping[str, float]) -> None:
        """The attempt is over."""
        self._mark("")
        if self._ranges is not None:
            self._ranges.end()
        self.outcome, self._seconds = outcome, seconds_by_stage
        self._over(self)

    @cached_property
    def attempted(self) -> Attempted:
        """In numbers; waits for the device where there is one."""
        assert self.outcome is not None
        return Attempted(
            update=self._update,
            policy=self.outcome.policy,
            skipped=not self.outcome.completed,
            seconds=self.outcome.seconds,
            seconds_by_stage=self._seconds,
            device_seconds_by_stage=self._device_seconds(),
            seconds_since=self._since,
        )

    def _mark(self, stage: str) -> None:
        if self._clock is not None:
            self._marks.append((stage, self._clock.mark()))

    def _device_seconds(self) -> dict[str, float] | None:
        if self._clock is None:
            return None
        found: dict[str, float] = {}
        spent = self._clock.between([mark for _, mark in self._marks])
        for (stage, _), seconds in zip(self._marks, spent, strict=False):  # the last mark ends the last stage
            found[stage] = found.get(stage, 0.0) + seconds
        return found
