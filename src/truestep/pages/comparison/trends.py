"""Figures along a run: loss and gradient norm against the examples seen, with every skipped attempt marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truestep.pages.comparison.attempts import Attempts, Column
from truestep.pages.look.candidates import Look
from truestep.pages.look.embed import figure_text
from truestep.pages.look.figure import Figure, Panel, logarithmic, plot, scatter, six
from truestep.pages.look.table import Cell, Table
from truestep.pages.look.thin import kept, medians
from truestep.pages.words import count, counted, significant

POINTS = 12_000
"""How many points all light lines of a figure have together, besides the marks; some 250 kB of the page."""
STRETCHES = 100
"""Into how many equal stretches of examples the strong line's medians divide the longest run: never more than its attempts."""
HEIGHT, STRIP = 250, 26
"""Pixels of a panel, and of the strip below it that marks skips."""

Drawn = Mapping[str, Look]
"""The candidates of a page in order, each with its look."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """What a trend figure shows of each attempt."""

    name: str
    title: str
    noun: str
    field: str
    """Its name in the ledger."""
    read: Callable[[Attempts], Column]


LOSS = Quantity(name="loss", title="Training loss", noun="loss", field="train/loss", read=lambda run: run.loss)
NORM = Quantity(
    name="gradient-norm",
    title="Gradient norm, before clipping",
    noun="gradient norm",
    field="grad_norm",
    read=lambda run: run.grad_norm,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trend:
    """What the panels of a figure share."""

    quantity: Quantity
    runs: Mapping[str, Sequence[Attempts]]
    """Candidate -> its runs; the candidates in the page's order, the baseline first."""
    edges: Column
    """The ends of the stretches over which medians are taken."""
    middles: Mapping[str, Column]
    """Candidate -> its medians."""
    budget: int
    """Points of one run's light line."""
    axis: Mapping[str, Any]
    skips: bool
    """Whether any run skipped an attempt."""


def trend(quantity: Quantity, runs: Sequence[Attempts], drawn: Drawn) -> Figure:
    """`quantity` of every attempt, a panel per candidate: a light line per seed, the median strong, skips on a strip."""
    source = f"ledgers/*.jsonl, {quantity.field} and skip against counts.examples_seen"
    values = np.concatenate([np.zeros(0), *(quantity.read(run) for run in runs)])
    values = values[np.isfinite(values)]
    if not len(values):
        why = f"No ledger holds a finite {quantity.noun}." if runs else "There are no ledgers in this folder."
        return Figure(name=quantity.name, title=quantity.title, source=source, absent=why)
    shared = _shared(quantity, [run for run in runs if len(run)], drawn, values)
    return Figure(
        name=quantity.name,
        title=quantity.title,
        shows=_shows(shared),
        source=source,
        panels=tuple(Panel(plot=_panel(shared, name, drawn), label=name, look=drawn[name]) for name in shared.runs),
        notes=_notes(shared),
        table=_table(shared),
    )


def _shared(quantity: Quantity, runs: Sequence[Attempts], drawn: Drawn, values: Column) -> _Trend:
    own = {name: [run for run in runs if run.candidate == name] for name in drawn}
    own = {name: found for name, found in own.items() if found}
    longest = max(runs, key=lambda run: float(run.examples[-1]))
    edges = np.linspace(0.0, longest.examples[-1], min(STRETCHES, len(longest)) + 1)
    low, high = float(values.min()), float(values.max())
    air = 0.06 * (high - low or abs(high) or 1.0)
    return _Trend(
        quantity=quantity,
        runs=own,
        edges=edges,
        middles={name: _medians(quantity, found, edges) for name, found in own.items()},
        budget=max(2, POINTS // len(runs)),
        axis=logarithmic(low, high) if low > 0 and high > 30 * low else {"range": [low - air, high + air]},
        skips=any(run.skips for run in runs),
    )


def _medians(quantity: Quantity, runs: Sequence[Attempts], edges: Column) -> NDArray[np.float64]:
    positions = np.concatenate([run.examples for run in runs])
    return medians(positions, np.concatenate([quantity.read(run) for run in runs]), edges)


def _panel(shared: _Trend, name: str, drawn: Drawn) -> dict[str, Any]:
    first = next(iter(shared.runs))
    traces = [_light_line(shared, name, drawn[name])]
    if name != first:
        traces.append(_median_line(shared, first, drawn[first], width=1.25))
    traces.append(_median_line(shared, name, drawn[name], width=2.5))
    layout: dict[str, Any] = {"xaxis": along(float(shared.edges[-1])), "yaxis": dict(shared.axis)}
    if shared.skips:
        traces.append(_skip_marks(shared.runs[name], drawn[name]))
        share = STRIP / (HEIGHT - 40)
        layout["yaxis"]["domain"] = [share + 0.03, 1]
        layout["yaxis2"] = {"domain": [0, share], "range": [-1, 1], "tickvals": [0], "ticktext": ["skips"]}
        layout["yaxis2"] |= {"showgrid": False, "fixedrange": True}
        layout["xaxis"]["anchor"] = "y2"
    return plot(traces, x="examples seen", height=HEIGHT + STRIP * shared.skips, **layout)


def along(end: float) -> dict[str, Any]:
    """An axis of what grows along a run, from 0 to `end`, with room for a mark on either end."""
    return {"range": [six(-0.02 * end), six(1.02 * end)], "nticks": 6}


def _light_line(shared: _Trend, name: str, look: Look) -> dict[str, Any]:
    """One trace for all seeds of a candidate, with a gap between each two."""
    x: list[float | None] = []
    y: list[float | None] = []
    for run in shared.runs[name]:
        values = shared.quantity.read(run)
        indices = kept(values, points=shared.budget, always=run.skips.keys())
        x += [*map(six, run.examples[indices]), None]
        y += [*map(six, values[indices]), None]
    return scatter(x, y, look, mode="lines", line={"color": look.colour, "width": 1}, opacity=0.28, hoverinfo="skip")


def _median_line(shared: _Trend, name: str, look: Look, *, width: float) -> dict[str, Any]:
    centres = (shared.edges[:-1] + shared.edges[1:]) / 2
    return scatter(
        [*map(six, centres)],
        [*map(six, shared.middles[name])],
        look,
        mode="lines+markers",
        line={"color": look.colour, "width": width, "dash": look.dash},
        marker={"color": look.colour, "symbol": look.marker, "size": 3.2 * width, "maxdisplayed": 6},
        hovertemplate=f"{figure_text(name)}<br>median %{{y:.4g}} near %{{x:,.0f}} examples<extra></extra>",
    )


def _skip_marks(runs: Sequence[Attempts], look: Look) -> dict[str, Any]:
    marks = [(run, index) for run in runs for index in run.skips]
    return scatter(
        [six(run.examples[index]) for run, index in marks],
        [0] * len(marks),
        look,
        yaxis="y2",
        mode="markers",
        marker={"color": look.colour, "symbol": "line-ns-open", "size": 12, "line": {"width": 1.25}},
        text=[figure_text(f"seed {run.seed}: {run.skips[index]}") for run, index in marks],
        hovertemplate="skipped, %{text}<br>at %{x:,.0f} examples<extra></extra>",
    )


def _shows(shared: _Trend) -> str:
    axis = "logarithmic" if shared.axis.get("type") == "log" else "linear"
    first, *rest = shared.runs
    strip = " The strip below marks each skipped attempt." if shared.skips else ""
    reference = f"; the thin one, in every panel, is {first}'s" if rest else ""
    return (
        f"Up: {shared.quantity.noun} of an attempt ({axis}). Right: examples seen. A light line per seed; "
        f"the strong line is the candidate's median{reference}.{strip}"
    )


def _notes(shared: _Trend) -> tuple[str, ...]:
    runs, read = [run for found in shared.runs.values() for run in found], shared.quantity.read
    attempts = sum(len(run) for run in runs)
    drawn = sum(len(kept(read(run), points=shared.budget, always=run.skips.keys())) for run in runs)
    missing = sum(int((~np.isfinite(read(run))).sum()) for run in runs)
    back = sum(run.rolled_back for run in runs)
    notes = {
        f"Medians are over a candidate's seeds, in stretches of {significant(float(shared.edges[1]))} examples; a run "
        "that ended early is in them up to its end.": True,
        f"{count(drawn)} of {count(attempts)} attempts are drawn as light lines: the lowest and the highest of each "
        "stretch, both ends, and every skipped attempt. Medians are over all of them.": drawn < attempts,
        f"{counted(missing, 'attempt')} without a finite {shared.quantity.noun} in the ledger: the light line has a gap "
        "there.": missing > 0,
        f"Not drawn: {counted(back, 'attempt')} that a resume rolled back.": back > 0,
    }
    return tuple(note for note, holds in notes.items() if holds)


def _table(shared: _Trend) -> Table:
    edges = shared.edges
    rows = [
        (f"{count(round(edges[k]))} to {count(round(edges[k + 1]))}", [_cell(mid[k]) for mid in shared.middles.values()])
        for k in sorted({round(k) for k in np.linspace(0, len(edges) - 2, 12)})
    ]
    caption = f"Median {shared.quantity.noun} in {len(rows)} of the {len(edges) - 1} stretches"
    return Table.of(caption, ["examples seen", *shared.middles], rows)


def _cell(value: float) -> Cell:
    return Cell(words=significant(value, 4), value=float(value)) if np.isfinite(value) else Cell(words="no attempt")
