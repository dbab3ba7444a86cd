"""The figure of the loss scale along a run, with every change and every skipped attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from truestep.pages.comparison.attempts import Attempts, Column
from truestep.pages.comparison.trends import along
from truestep.pages.look.candidates import Look
from truestep.pages.look.embed import figure_text
from truestep.pages.look.figure import Figure, Panel, plot, scatter, six
from truestep.pages.look.table import Cell, Table
from truestep.pages.look.thin import changes
from truestep.pages.words import TIMES, count, listing, significant


def scale_trend(runs: Sequence[Attempts], drawn: Mapping[str, Look]) -> Figure:
    """The loss scale of every attempt, as steps, with a cross at each skipped attempt; candidates without one in words."""
    name, title = "loss-scale", "Loss scale"
    source = "ledgers/*.jsonl, amp/loss_scale and skip against counts.examples_seen"
    scaled = [run for run in runs if (run.scale != 1).any()]
    if not scaled:
        none = "No candidate used a loss scale: it was 1 at every attempt."
        why = none if runs else "There are no ledgers in this folder."
        return Figure(name=name, title=title, source=source, absent=why)
    own = {key: [run for run in scaled if run.candidate == key] for key in drawn}
    own = {key: found for key, found in own.items() if found}
    without = [key for key in drawn if key not in own and any(run.candidate == key for run in runs)]
    axes = _powers_of_two(np.concatenate([run.scale for run in scaled]))
    axes["xaxis"] = along(max(float(run.examples[-1]) for run in scaled))
    return Figure(
        name=name,
        title=title,
        shows="Up: the multiplier against underflow, in powers of two. Right: examples seen. A line per seed; "
        f"{TIMES} is a skipped attempt, at the scale that it used.",
        source=source,
        panels=tuple(Panel(plot=_panel(found, drawn[key], axes), label=key, look=drawn[key]) for key, found in own.items()),
        notes=(
            "Every change of the scale and every skipped attempt is drawn.",
            *([f"{listing(without)}: no loss scale, so no panel (it was 1 at every attempt)."] if without else []),
        ),
        table=_table(scaled),
    )


def _panel(runs: Sequence[Attempts], look: Look, axes: Mapping[str, Any]) -> dict[str, Any]:
    traces = [*(_steps(run, look) for run in runs), _skips(runs, look)]
    return plot(traces, x="examples seen", height=230, **axes)


def _steps(run: Attempts, look: Look) -> dict[str, Any]:
    indices = changes(run.scale)
    where = f"{figure_text(run.candidate)}, seed {run.seed}"
    return scatter(
        [*map(six, run.examples[indices])],
        [*map(six, run.scale[indices])],
        look,
        mode="lines",
        line={"color": look.colour, "width": 1.5, "shape": "hv"},
        opacity=0.6,
        hovertemplate=f"{where}<br>scale %{{y}} at %{{x:,.0f}} examples<extra></extra>",
    )


def _skips(runs: Sequence[Attempts], look: Look) -> dict[str, Any]:
    marks = [(run, index) for run in runs for index in run.skips]
    return scatter(
        [six(run.examples[index]) for run, index in marks],
        [six(run.scale[index]) for run, index in marks],
        look,
        mode="markers",
        marker={"color": look.colour, "symbol": "x-thin-open", "size": 8, "line": {"width": 1.75}},
        text=[figure_text(f"seed {run.seed}: {run.skips[index]}") for run, index in marks],
        hovertemplate="skipped at scale %{y}, %{text}<br>at %{x:,.0f} examples<extra></extra>",
    )


def _powers_of_two(scales: Column) -> dict[str, Any]:
    """An axis with ticks at powers of two, at most nine of them, and air above and below."""
    low, high = int(np.floor(np.log2(scales.min()))), int(np.ceil(np.log2(scales.max())))
    exponents = range(low, high + 1, max(1, -(-(high - low) // 8)))
    air = 0.3 + 0.06 * (high - low)
    return {
        "yaxis": {
            "type": "log",
            "tickvals": [2.0**k for k in exponents],
            "ticktext": [f"2<sup>{k}</sup>" for k in exponents],
            "range": [float((low - air) * np.log10(2)), float((high + air) * np.log10(2))],
        }
    }


def _table(runs: Sequence[Attempts]) -> Table:
    rows = [
        (
            f"{run.candidate}, seed {run.seed}",
            [
                *(_cell(float(scale)) for scale in (run.scale[0], run.scale.min(), run.scale.max(), run.scale[-1])),
                Cell(words=count(len(run.skips)), value=len(run.skips)),
            ],
        )
        for run in runs
    ]
    return Table.of("Loss scale of each run", ["run", "first", "lowest", "highest", "last", "skipped attempts"], rows)


def _cell(scale: float) -> Cell:
    return Cell(words=significant(scale, 6), value=scale)
