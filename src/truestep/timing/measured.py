"""The stages of several attempts as one table: medians, and shares of the whole. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from truestep.engine.stages import STAGES

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Attempted:
    """One attempt that was timed."""

    update: int
    """Which of the updates it was an attempt of, in the order in which they came; from 0."""
    policy: str
    skipped: bool
    seconds: float
    """The outcome's: wall time of the host."""
    seconds_by_stage: Mapping[str, float]
    """Their sum is `seconds`."""
    device_seconds_by_stage: Mapping[str, float] | None
    """From the device's coming to a stage to its coming to the next; None on a CPU."""
    seconds_since: float | None
    """From the end of the attempt before; None where there was none, or another one was open."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage over the timed attempts."""

    name: str
    attempts: int
    """Those that came to it."""
    median_seconds: float
    """Over these."""
    share: float
    """Its median times its attempts, of the sum of these over the stages: one slow attempt does not decide."""
    device_median_seconds: float | None
    device_share: float | None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the profile was asked to be, and what became of it."""

    after: int
    attempts: int
    begun: int
    """Attempts that began before the profile ended."""
    beside_another: bool
    """Whether a torch.profiler was recording while attempts were timed: its cost is in their seconds."""
    trace: str | None
    """The path; None where none was written."""
    trace_error: str | None
    """Why there is no trace that was asked for."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The stages, and the attempt that they add up to; None stands for what no attempt has."""

    asked: Asked
    device: str | None
    policies: tuple[str, ...]
    updates: int
    """More than one: attempts of different kinds are in one table."""
    attempts: int
    skipped: int
    stages: tuple[Stage, ...]
    """In their order, without those that no attempt came to."""
    median_seconds: float | None
    least_seconds: float | None
    most_seconds: float | None
    device_median_seconds: float | None
    between_median_seconds: float | None
    """From the end of an attempt to the beginning of the next: data, `weight=`, ledger, and all else of the loop."""

    def record(self) -> dict[str, Any]:
        """All of it as JSON values."""
        shown = asdict(self)
        return {"schema": SCHEMA, **shown, "policies": list(self.policies), "stages": list(shown["stages"])}


def table_of(attempts: Sequence[Attempted], *, asked: Asked, device: str | None) -> Table:
    """What `attempts`, which ran on `device`, have in common."""
    seconds, host = [each.seconds for each in attempts], [each.seconds_by_stage for each in attempts]
    there = [each.device_seconds_by_stage for each in attempts if each.device_seconds_by_stage is not None]
    return Table(
        asked=asked,
        device=device,
        policies=tuple(dict.fromkeys(each.policy for each in attempts)),
        updates=len({each.update for each in attempts}),
        attempts=len(attempts),
        skipped=sum(each.skipped for each in attempts),
        stages=_stages(host, there),
        median_seconds=_median(seconds),
        least_seconds=min(seconds, default=None),
        most_seconds=max(seconds, default=None),
        device_median_seconds=_median([math.fsum(each.values()) for each in there]),
        between_median_seconds=_median([each.seconds_since for each in attempts if each.seconds_since is not None]),
    )


def _stages(host: Sequence[Mapping[str, float]], device: Sequence[Mapping[str, float]]) -> tuple[Stage, ...]:
    names = [name for name in STAGES if any(name in each for each in host)]
    spent, there = ({name: [each[name] for each in side if name in each] for name in names} for side in (host, device))
    shares, shares_there = _shares(spent), _shares(there)
    return tuple(
        Stage(
            name=name,
            attempts=len(spent[name]),
            median_seconds=median(spent[name]),
            share=shares.get(name, 0.0),
            device_median_seconds=_median(there[name]),
            device_share=shares_there.get(name),
        )
        for name in names
    )


def _shares(spent: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The part of each stage; none where there is nothing to have a part in."""
    typical = {name: median(seconds) * len(seconds) for name, seconds in spent.items() if seconds}
    whole = math.fsum(typical.values())
    return {name: seconds / whole for name, seconds in typical.items()} if whole > 0 else {}


def _median(seconds: Sequence[float]) -> float | None:
    return median(seconds) if seconds else None
