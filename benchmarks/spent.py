"""Where an update of a small model spends its time beside the loop by hand: the functions that take most above it."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fixed import fixed
from benchmarks.table import Table

WIDTH, BATCH, UPDATES, MOST = 64, 32, 500, 20

HOW = f"""
The fixed text of update_overhead.py at width {WIDTH}, batch {BATCH}, profiled by cProfile in seconds of the processor. The {MOST}
functions that take most above what the loop by hand takes in them, in microseconds an update, without what they call; calls an
update. The profiler makes a call dearer than it is and leaves kernels as they are, so that these tell an order and no cost.
"""

Stats = Mapping[tuple[str, int, str], tuple[Any, ...]]
"""As pstats keeps them: of each function the calls without recursion, the calls, its own seconds and more."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One function, for one update."""

    function: str
    above_us: float
    own_us: float
    calls: float
    calls_by_hand: float


def profiled(run: Callable[[], object]) -> Stats:
    """What `run` spends."""
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    try:
        run()
    finally:
        profile.disable()
    stats: Any = pstats.Stats(profile)
    found: Stats = stats.stats
    return found


def rows_of(ours: Stats, by_hand: Stats, updates: int) -> list[Row]:
    """The functions of both, by what ours take above the other's; those first that take most."""
    nothing = (0, 0, 0.0)
    rows = []
    for place in {*ours, *by_hand}:
        own, other = (stats.get(place, nothing) for stats in (ours, by_hand))
        file, line, name = place
        where = name if file == "~" else f"{Path(file).name}:{line} {name}"
        rows.append(
            Row(
                function=where,
                above_us=(own[2] - other[2]) / updates * 1e6,
                own_us=own[2] / updates * 1e6,
                calls=own[1] / updates,
                calls_by_hand=other[1] / updates,
            )
        )
    return sorted(rows, key=lambda row: (-row.above_us, row.function))


def table_of(rows: list[Row]) -> Table:
    """The first of them, and the sum of all."""
    shown = [(row.function, row.above_us, row.own_us, row.calls, row.calls_by_hand) for row in rows[:MOST]]
    totals = [sum(getattr(row, kind) for row in rows) for kind in ("above_us", "own_us", "calls", "calls_by_hand")]
    return Table(
        title="Where an update of a small model spends its time",
        how=HOW,
        columns=("function", "above the loop by hand, us", "own, us", "calls", "calls by hand"),
        rows=tuple(
            (f"`{name}`" if name != "all" else name, f"{above:+.1f}", f"{own:.1f}", f"{calls:.1f}", f"{hand:.1f}")
            for name, above, own, calls, hand in [*shown, ("all", *totals)]
        ),
    )


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    updates = 50 if quick else UPDATES
    few, module = fixed("update_overhead", WIDTH, BATCH, 5), fixed("update_overhead", WIDTH, BATCH, updates)
    few.ours(), few.hand()  # what is imported at its first use
    return [table_of(rows_of(profiled(module.ours), profiled(module.hand), updates))]
