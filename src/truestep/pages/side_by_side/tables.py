"""The tables of two comparisons: every number one of either summary, a column for each side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truestep.pages.comparison.results import estimate_cell, quality_cell, reach_cell, skips_cell
from truestep.pages.look.table import Cell, Table
from truestep.pages.side_by_side.sides import NAMES, Sides
from truestep.pages.words import NEITHER, NOT_MEASURED, between, count, ratio_words, seconds, significant


def to_the_target(sides: Sides) -> Table:
    """Reach, seconds and examples of either side, and the ratios between them."""
    rows = []
    for name, *both in sides.standings():
        cells = [reach_cell(one) for one in both]
        cells += [estimate_cell(one["estimates"]["seconds"], seconds) for one in both]
        cells.append(_ratio(sides, name, "seconds"))
        cells += [estimate_cell(one["estimates"]["examples"], lambda value: count(round(value))) for one in both]
        cells.append(_ratio(sides, name, "examples"))
        rows.append((sides.labels[name], cells))
    columns = ["candidate", *_of("at the target"), *_of("seconds"), "A / B, seconds", *_of("examples"), "A / B, examples"]
    caption = (
        "To the target: the restricted mean, its 95 % interval, the expected time with restarts and the median. A / B: the "
        "geometric mean over the seeds of both, with its 95 % interval; above 1 is less in B."
    )
    return Table.of(caption, columns, rows)


def on_the_way(sides: Sides) -> Table:
    """Final quality, skips and throughput of either side."""
    rows = [(sides.labels[name], [*map(quality_cell, both), *map(skips_cell, both)]) for name, *both in sides.standings()]
    quality = f"final {sides.left.protocol['quality']}, test split"
    columns = ["candidate", *_of(quality), *_of("skipped, and throughput")]
    return Table.of("On the way: throughput is a local speed, and no verdict.", columns, rows)


def _of(noun: str) -> list[str]:
    return [f"{noun}, {name}" for name in NAMES]


def _ratio(sides: Sides, name: str, clock: str) -> Cell:
    if clock == "seconds" and name in sides.emulated:
        return Cell(words="withheld")
    ratio: Mapping[str, Any] | None = sides.between["ratios"][name][clock]
    if ratio is None:
        return Cell(words=NOT_MEASURED)
    interval = ratio["interval"] and (ratio["interval"]["low"], ratio["interval"]["high"])
    words = ratio_words(ratio["speedup"], bound=ratio["bound"], interval=interval, spread=False)
    below = () if interval is None else (Cell(words=between(*map(significant, interval))),)
    return Cell(words=words, value=None if words == NEITHER else ratio["speedup"], below=below)
