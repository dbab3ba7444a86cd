"""What the runs took: seconds by clock as a figure and a table, memory and throughput as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from truestep.pages.comparison.clocks import Record
from truestep.pages.comparison.reading import Comparison
from truestep.pages.comparison.trends import along
from truestep.pages.look.candidates import Look
from truestep.pages.look.embed import figure_text
from truestep.pages.look.figure import Figure, Panel, plot, scatter, six
from truestep.pages.look.table import Cell, Table
from truestep.pages.words import NOT_MEASURED, counted, listing, mebibytes, percent, seconds, significant

Standing = Mapping[str, Any]


def time_by_clock(comparison: Comparison) -> Figure:
    """The seconds of a candidate's runs on each clock, a row per clock and a mark per candidate."""
    standings = [one for one in comparison.summary["candidates"] if one["runs"]]
    name, title, source = "time-by-clock", "Where the seconds went", "summary.json, spent over runs, and cpu_share"
    if not standings:
        return Figure(name=name, title=title, source=source, absent="No run has ended yet.")
    clocks = [*standings[0]["spent"]]
    used = [clock for clock in clocks if any(one["spent"][clock] for one in standings)]
    if not used:
        return Figure(name=name, title=title, source=source, absent="No clock moved.", table=spent(comparison))
    looks, labels = comparison.drawn, comparison.labels
    idle = [clock for clock in clocks if clock not in used]
    return Figure(
        name=name,
        title=title,
        shows="Right: mean seconds of a candidate's run on each clock, failed runs included. "
        f"The race is timed by {comparison.protocol['primary_clock']}.",
        source=source,
        panels=(Panel(plot=_plot(standings, used, looks, labels)),),
        notes=(f"No run spent anything on: {listing(idle)}.",) if idle else (),
        table=spent(comparison),
        legend=tuple((labels[one["candidate"]], looks[one["candidate"]]) for one in standings),
    )


def _plot(
    standings: Sequence[Standing], clocks: Sequence[str], looks: Mapping[str, Look], labels: Mapping[str, str]
) -> dict[str, Any]:
    traces, most = [], max(one["spent"][clock] / one["runs"] for one in standings for clock in clocks)
    for place, one in enumerate(standings, start=1):
        aside = 0.8 * (place / (len(standings) + 1) - 0.5)  # candidates of one row lie below each other
        means = {clock: one["spent"][clock] / one["runs"] for clock in clocks}
        traces.append(_marks(means, aside, looks[one["candidate"]], labels[one["candidate"]]))
    return plot(
        traces,
        x="mean seconds of a run",
        height=70 + len(clocks) * max(36, 14 * len(standings)),
        xaxis=along(most),
        yaxis={
            "tickvals": [*range(len(clocks))],
            "ticktext": [*clocks],
            "range": [len(clocks) - 0.5, -0.5],
            "fixedrange": True,
            "showgrid": False,
        },
    )


def _marks(means: Mapping[str, float], aside: float, look: Look, label: str) -> dict[str, Any]:
    """A candidate's marks, each with a line from 0, as `error_x` draws it."""
    return scatter(
        [*map(six, means.values())],
        [row + aside for row in range(len(means))],
        look,
        mode="markers",
        marker={"color": look.colour, "size": 10, "symbol": look.marker},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [0] * len(means),
            "arrayminus": [*map(six, means.values())],
            "color": look.colour,
            "thickness": 2,
            "width": 0,
        },
        text=[figure_text(f"{label}, {clock}: {seconds(value)}") for clock, value in means.items()],
        hovertemplate="%{text}<extra></extra>",
    )


def spent(comparison: Comparison) -> Table:
    """Where the seconds went, by clock, over all runs of a candidate."""
    standings = comparison.summary["candidates"]
    rows = [(one["candidate"], [*map(_clock, one["spent"].values()), _share(one["cpu_share"])]) for one in standings]
    timed = comparison.protocol["primary_clock"]
    caption = f"Where the seconds went, over all runs of a candidate; the race is timed by {timed}."
    return Table.of(caption, ["candidate", *standings[0]["spent"], "least share of the CPU"], rows)


def memory_and_throughput(comparison: Comparison) -> Table:
    """The most memory that a run's process held, and the device for it; examples a second with the skip rate beside them."""
    memories = {"peak memory of a run's process": "peak_memory_bytes", "peak memory on the device": "peak_device_bytes"}
    if not any(_peak(record, "peak_device_bytes") for record in comparison.records):
        del memories["peak memory on the device"]
    rows = []
    for one in comparison.summary["candidates"]:
        own = [record for record in comparison.records if record["candidate"] == one["candidate"]]
        cells = [_memory([peak for record in own if (peak := _peak(record, field))], one["runs"]) for field in memories.values()]
        rows.append((one["candidate"], [_throughput(one), _share(one["skip_rate"]), *cells]))
    columns = ["candidate", "examples a second, applied", "attempts skipped", *memories]
    return Table.of("Memory and throughput: a local speed, and no verdict.", columns, rows)


def _peak(record: Record, field: str) -> int | None:
    """In bytes; None where nobody knows, and for a run that had no process of its own."""
    peak: int | None = (record.get("process") or {}).get(field)
    return peak


def _memory(peaks: Sequence[int], runs: int) -> Cell:
    if not peaks:
        return Cell(words=NOT_MEASURED)
    most = max(peaks)
    below = (Cell(words=f"the highest of {counted(len(peaks), 'run')}{'' if len(peaks) == runs else f', of {runs}'}"),)
    return Cell(words=mebibytes(most), value=most, below=below)


def _throughput(one: Standing) -> Cell:
    speed = one["examples_per_second"]
    below = (Cell(words="emulated"),) if one["emulated"] else ()
    return Cell(words=NOT_MEASURED if speed is None else significant(speed), value=speed, below=below)


def _clock(value: float) -> Cell:
    return Cell(words=seconds(value), value=value)


def _share(share: float | None) -> Cell:
    return Cell(words=percent(share), value=share)
