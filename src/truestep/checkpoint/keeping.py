"""Which checkpoints of a folder are the newest, which is the best, and which are in excess. Pure values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from truestep.checkpoint.description import Description

Better = Literal["higher", "lower"]


def newest_first(there: Mapping[Path, Description]) -> list[Path]:
    """The one saved last before all others; where a folder was put together from several, by attempts and name."""
    return sorted(there, key=lambda path: (there[path].serial, there[path].counts.attempts, path.name), reverse=True)


def best_first(there: Mapping[Path, Description], better: Better | None) -> list[Path]:
    """Those with a finite quality, the best before all others and the earlier of equal ones; none without a direction."""
    if better is None:
        return []
    sign = -1.0 if better == "higher" else 1.0
    ranked = [
        (sign * description.quality, description.serial, path)
        for path, description in there.items()
        if description.quality is not None and math.isfinite(description.quality)
    ]
    return [path for *_, path in sorted(ranked)]


def in_excess(there: Mapping[Path, Description], *, keep_last: int, better: Better | None) -> list[Path]:
    """Those that are neither among the `keep_last` newest nor the best, the oldest first.

    >>> from truestep.engine.counts import Counts
    >>> def saved(serial, quality):
    ...     return Description(serial=serial, counts=Counts(), quality=quality, policy="fp32", torch="2", truestep="1")
    >>> there = {Path("a"): saved(1, 0.9), Path("b"): saved(2, 0.8), Path("c"): saved(3, float("nan"))}
    >>> in_excess(there, keep_last=1, better="higher")
    [PosixPath('b')]
    """
    kept = {*newest_first(there)[:keep_last], *best_first(there, better)[:1]}
    return [path for path in reversed(newest_first(there)) if path not in kept]
