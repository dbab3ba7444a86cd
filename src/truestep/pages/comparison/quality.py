"""The figure of validation quality: every evaluation of every run, and the target that the race is to."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from truestep.pages.comparison.clocks import Record
from truestep.pages.look.candidates import Look
from truestep.pages.look.embed import figure_text
from truestep.pages.look.figure import Figure, Panel, plot, scatter, six
from truestep.pages.look.table import Cell, Table
from truestep.pages.words import count, listing, significant

Medians = Mapping[int, float]
"""Examples seen -> median quality."""

NEAR, LEAST = 1 / 8, 1 / 20
"""Shares of the course from the first evaluation to the target: how close to the target an end is hard to tell from it, and
how much of the course a panel shows at least."""


def quality_trend(protocol: Mapping[str, Any], records: Sequence[Record], drawn: Mapping[str, Look]) -> Figure:
    """Validation quality against examples seen: a light line per seed, the candidate's median strong, the target a line.

    Where a candidate ends close to the target, a second panel shows that stretch alone: on the whole course, 0.95 is 0.96.
    """
    name, title = "quality", f"Validation {protocol['quality']}"
    source = "records.jsonl, evaluations: quality against examples; the target from protocol.json"
    own = {key: [record for record in records if record["candidate"] == key] for key in drawn}
    middles = {key: found for key, runs in own.items() if (found := _medians(runs))}
    if not middles:
        why = "No run came to an evaluation with a finite quality."
        return Figure(name=name, title=title, source=source, absent=why)
    traces = [_light(own[key], drawn[key]) for key in middles]
    traces += [_strong(found, key, drawn[key]) for key, found in middles.items()]
    near = _near(middles, protocol["target"])
    target = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": protocol["target"], "y1": protocol["target"]}
    target |= {"line": {"color": "var(--edge)", "width": 1.5, "dash": "dot"}}
    return Figure(
        name=name,
        title=title,
        shows=f"Up: {protocol['quality']} at an evaluation; {protocol['direction']} is better, and the dotted line is the "
        f"target, {protocol['target']:g}. Right: examples seen. A light line per seed; the strong line is the median.",
        source=source,
        panels=tuple(
            Panel(plot=plot(traces, x="examples seen", shapes=[target], yaxis=axis), label=label)
            for label, axis in _axes(near).items()
        ),
        notes=(
            "A median is over the runs that came to the evaluation; a run that has ended is in it no more.",
            *_beyond(middles, near),
        ),
        table=_table(middles),
        legend=tuple((key, drawn[key]) for key in middles),
    )


def _near(middles: Mapping[str, Medians], target: float) -> tuple[float, float] | None:
    """The stretch of quality that holds the target and every end close to it, with air; None where all end far from it.

    >>> _near({"a": {0: 0.0, 64: 0.75}, "b": {0: 0.125, 64: 1.0}, "c": {0: 0.0, 64: 0.5}}, 0.8125)
    (0.734375, 0.828125)
    """
    course = max(abs(next(iter(found.values())) - target) for found in middles.values())
    ends = [end for end in map(_end, middles.values()) if abs(end - target) < NEAR * course]
    if not ends:
        return None
    low, high = min(*ends, target), max(*ends, target)
    air = max((high - low) / 4, (LEAST * course - (high - low)) / 2)
    return low - air, high + air


def _end(found: Medians) -> float:
    return found[max(found)]


def _axes(near: tuple[float, float] | None) -> dict[str | None, dict[str, Any]]:
    """A panel's label and its axis, for each panel."""
    return {None: {}} if near is None else {"The whole course": {}, "Near the target": {"range": [*map(six, near)]}}


def _beyond(middles: Mapping[str, Medians], near: tuple[float, float] | None) -> list[str]:
    """A note on the candidates whose lines do not end within the second panel."""
    if near is None:
        return []
    ends = {name: _end(found) for name, found in middles.items()}
    said = [f"{name} ({significant(end, 4)})" for name, end in ends.items() if not near[0] <= end <= near[1]]
    return [f"Ends outside of what is near the target: {listing(said)}."] if said else []


def _light(runs: Sequence[Record], look: Look) -> dict[str, Any]:
    """One trace for all seeds, with a gap between each two and where a quality is not finite."""
    x: list[float | None] = []
    y: list[float | None] = []
    for run in runs:
        x += [*(each["examples"] for each in run["evaluations"]), None]
        y += [*(six(float(each["quality"])) for each in run["evaluations"]), None]
    return scatter(x, y, look, mode="lines", line={"color": look.colour, "width": 1}, opacity=0.25, hoverinfo="skip")


def _strong(middles: Medians, name: str, look: Look) -> dict[str, Any]:
    return scatter(
        [*middles],
        [*map(six, middles.values())],
        look,
        mode="lines+markers",
        line={"color": look.colour, "width": max(1.5, 3 - 0.5 * look.slot), "dash": look.dash},
        marker={"color": look.colour, "symbol": look.marker, "size": 7, "maxdisplayed": 12},
        hovertemplate=f"{figure_text(name)}<br>median %{{y:.4g}} at %{{x:,.0f}} examples<extra></extra>",
    )


def _medians(runs: Sequence[Record]) -> Medians:
    at: dict[int, list[float]] = {}
    for run in runs:
        for each in run["evaluations"]:
            if six(quality := float(each["quality"])) is not None:
                at.setdefault(each["examples"], []).append(quality)
    return {examples: statistics.median(at[examples]) for examples in sorted(at)}


def _table(middles: Mapping[str, Medians]) -> Table:
    places = sorted({examples for found in middles.values() for examples in found})
    rows = [(count(examples), [_cell(found.get(examples)) for found in middles.values()]) for examples in places]
    return Table.of("Median quality at each evaluation", ["examples seen", *middles], rows)


def _cell(quality: float | None) -> Cell:
    return Cell(words="no run") if quality is None else Cell(words=significant(quality, 4), value=quality)
