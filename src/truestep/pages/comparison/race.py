"""The figure of the race: the share of each candidate's seeds that are not yet at the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from truestep.pages.comparison.clocks import Clock, Record
from truestep.pages.look.candidates import Look
from truestep.pages.look.embed import figure_text
from truestep.pages.look.figure import Figure, Panel, plot, scatter, six
from truestep.pages.look.table import Cell, Table
from truestep.pages.words import SPACE, TIMES


def not_yet(clock: Clock, records: Sequence[Record], drawn: Mapping[str, Look], labels: Mapping[str, str]) -> Figure:
    """The share of a candidate's seeds that have not reached the target, as a step curve over `clock`."""
    name, title = f"not-yet-by-{clock.name}", f"Seeds not yet at the target, by {clock.noun}"
    source = f"records.jsonl, to_target.{clock.field}, status, clocks and counts"
    present = {key: look for key, look in drawn.items() if any(record["candidate"] == key for record in records)}
    if not present:
        return Figure(name=name, title=title, source=source, absent="No run has ended yet.")
    end = max(max(clock.spent(record), clock.reached(record) or 0.0) for record in records)
    traces = []
    for key, look in present.items():
        own = [record for record in records if record["candidate"] == key]
        traces += [_steps(clock, own, look, labels[key], end), *_ends(clock, own, look, labels[key])]
    axis = {"range": [-5, 107], "ticksuffix": f"{SPACE}%", "dtick": 25}
    return Figure(
        name=name,
        title=title,
        shows=f"Up: share of a candidate's seeds not yet at the target. Right: {clock.axis}. "
        f"A curve that falls earlier got there sooner; {TIMES} marks where a run ended without reaching it.",
        source=source,
        panels=(Panel(plot=plot(traces, x=clock.axis, yaxis=axis, xaxis={"range": [0, six(end * 1.02)]})),),
        table=_table(clock, records, labels),
        legend=tuple((labels[key], look) for key, look in present.items()),
    )


def _steps(clock: Clock, own: Sequence[Record], look: Look, label: str, end: float) -> dict[str, Any]:
    times = sorted(time for record in own if (time := clock.reached(record)) is not None)
    shares = [100 - 100 * k / len(own) for k in range(len(times) + 1)]
    return scatter(
        [0, *map(six, times), six(end)],
        [*map(six, shares), six(shares[-1])],
        look,
        mode="lines+markers",
        # Curves often lie on each other: a later one is thinner, so that an earlier one shows on both sides of it.
        line={"color": look.colour, "width": max(1.5, 4 - 0.75 * look.slot), "dash": look.dash, "shape": "hv"},
        marker={
            "color": look.colour,
            "symbol": look.marker,
            "size": [0, *[8] * len(times), 0],  # the ends of the curve are no run's
            "opacity": 1,
            "line": {"width": 0},
        },
        hovertemplate=f"{figure_text(label)}<br>%{{y:.0f}}{SPACE}% not yet there after %{{x:,.4g}}<extra></extra>",
    )


def _ends(clock: Clock, own: Sequence[Record], look: Look, label: str) -> list[dict[str, Any]]:
    """A cross where each run without the target ended, at the height at which the curve stays."""
    failed = [record for record in own if clock.reached(record) is None]
    if not failed:
        return []
    return [
        scatter(
            [six(clock.spent(record)) for record in failed],
            [six(100 * len(failed) / len(own))] * len(failed),
            look,
            mode="markers",
            marker={"color": look.colour, "symbol": "x-thin-open", "size": 10, "line": {"width": 2}},
            text=[figure_text(f"{label}, seed {record['seed']}: {record['status']}") for record in failed],
            hovertemplate="%{text}<br>ended at %{x:,.4g}<extra></extra>",
        )
    ]


def _table(clock: Clock, records: Sequence[Record], labels: Mapping[str, str]) -> Table:
    rows = []
    for record in records:
        time = clock.reached(record)
        spent = clock.spent(record)
        at_target = Cell(words="not reached") if time is None else Cell(words=clock.words(time), value=time)
        run = f"{labels[record['candidate']]}, seed {record['seed']}"
        ended = Cell(words=clock.words(spent), value=spent)
        rows.append((run, (Cell(words=str(record["status"])), at_target, ended)))
    return Table.of(f"When each run was at the target, in {clock.noun}", ["run", "status", "at the target", "in all"], rows)
