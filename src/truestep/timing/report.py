"""A profile in words: its table, and what the table does not say."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.pages.words import counted, percent, seconds
from truestep.timing.measured import Table

COLUMNS = ("stage", "median", "share")
ON_DEVICE = ("on the device", "share there")
"""Further columns where a device works on by itself."""


def title(table: Table) -> str:
    """What was timed."""
    policies = f": {', '.join(table.policies)} on {table.device}" if table.policies else ""
    return f"{counted(table.attempts, 'attempt')} timed{policies}"


def columns(table: Table) -> tuple[str, ...]:
    """The names of the columns."""
    return COLUMNS if table.device_median_seconds is None else (*COLUMNS, *ON_DEVICE)


def rows(table: Table) -> list[tuple[str, ...]]:
    """A row for each stage, one for the attempt, one for the loop between two attempts; none where nothing was timed."""
    if table.median_seconds is None:
        return []
    has_device, lines = table.device_median_seconds is not None, []
    for stage in table.stages:
        there = (_cell(stage.device_median_seconds), _share(stage.device_share)) if has_device else ()
        lines.append((stage.name, seconds(stage.median_seconds), _share(stage.share), *there))
    there = (_cell(table.device_median_seconds), _share(1.0)) if has_device else ()
    lines.append(("attempt", seconds(table.median_seconds), _share(1.0), *there))
    if table.between_median_seconds is not None:
        lines.append(("between attempts", seconds(table.between_median_seconds), *[""] * (len(columns(table)) - 2)))
    return lines


def sentences(table: Table) -> Iterator[str]:
    """What the table does not say."""
    asked, missing = table.asked, table.asked.attempts - table.attempts
    if table.attempts == 0:
        yield f"{counted(asked.begun, 'attempt')} began; timed are those after the first {asked.after} and the traced one"
    elif missing > 0:
        yield f"{counted(missing, 'attempt')} fewer than asked"
    if table.attempts > 1:
        yield f"the attempts took from {seconds(table.least_seconds)} to {seconds(table.most_seconds)}"
    for stage in table.stages:
        if stage.attempts < table.attempts:
            yield f"{stage.name}: in {stage.attempts} of {table.attempts} attempts, and its median is over these"
    if table.skipped:
        yield f"{counted(table.skipped, 'attempt')} skipped"
    if table.updates > 1:
        yield f"attempts of {table.updates} updates are in one table; profile(..., update=...) takes those of one"
    if table.device_median_seconds is not None:
        yield "median and share are the host's, which goes ahead of the device and waits for it in judge;"
        yield "on the device a stage lasts from the device's coming to it to its coming to the next, idle or not"
    if asked.beside_another:
        yield "another torch.profiler was recording: its own cost is in these seconds"
    if asked.trace is not None:
        yield f"trace  {asked.trace}"
    elif asked.trace_error is not None:
        yield asked.trace_error


def text(table: Table) -> str:
    """All of it as plain text."""
    found = rows(table)
    cells = [columns(table), *found] if found else []
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = [str.ljust, *[str.rjust] * (len(widths) - 1)]
    lines = ["  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([title(table), *lines, *sentences(table)])


def _cell(value: float | None) -> str:
    return "" if value is None else seconds(value)


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)
