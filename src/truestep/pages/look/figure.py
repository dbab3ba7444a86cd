"""A figure as a value: its drawings, words, source and table; or, without data, the words that say why there is none.

Colours are written as variables of the style sheet (`var(--series-1)`); the page's script puts in the value that light,
dark or paper gives them, so a figure follows the page's theme.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from truestep.pages.look.candidates import Look
from truestep.pages.look.table import Table
from truestep.pages.words import significant


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One drawing of a figure."""

    plot: dict[str, Any]
    """plotly's JSON."""
    label: str | None = None
    """The candidate that the panel is about, or the stretch that it shows of all; None where it shows all of all."""
    look: Look | None = None
    """The candidate's, where the panel is about one."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a page: either it has panels, or `absent` says why it has none."""

    name: str
    """The id on the page."""
    title: str
    source: str
    """Which file and which fields the numbers come from."""
    shows: str | None = None
    """What is on the axes and how to read it, where there are panels. It is also the drawing's accessible name."""
    panels: tuple[Panel, ...] = ()
    absent: str | None = None
    table: Table | None = None
    """The same in numbers."""
    notes: tuple[str, ...] = ()
    """What the drawing leaves out, and how its lines were made."""
    legend: tuple[tuple[str, Look], ...] = ()
    """Label and look of each candidate that shares a panel with others."""

    def __post_init__(self) -> None:
        """Neither both nor neither; and a drawing says what it shows."""
        assert bool(self.panels) == (self.absent is None) == (self.shows is not None), self.name


def plot(traces: list[Any], *, x: str, height: int = 340, **layout: Any) -> dict[str, Any]:
    """plotly's JSON for `traces`, in the style of all figures: quiet axes, no frame, no legend (the page has its own).

    `layout` is plotly's; axes given there are laid over the style's.
    """
    axes = {"xaxis": {}, "yaxis": {}} | {name: layout.pop(name) for name in list(layout) if name[1:5] == "axis"}
    axes["xaxis"] = {"title": {"text": x, "standoff": 12}} | axes["xaxis"]
    style = _STYLE | {"height": height} | {name: _AXIS | axis for name, axis in axes.items()} | layout
    # An explicit template, even an empty one, keeps plotly's default (8 kB, and another look) out.
    drawn: dict[str, Any] = go.Figure(traces, go.Layout(template=go.layout.Template(), **style)).to_plotly_json()
    drawn["layout"].pop("template")
    return {"data": drawn["data"], "layout": drawn["layout"]}


def scatter(x: list[Any], y: list[Any], look: Look, **style: Any) -> dict[str, Any]:
    """One candidate's trace; its slot ties it to the candidate's button in the legend."""
    return {"type": "scatter", "x": x, "y": y, "meta": {"slot": look.slot}, **style}


def six(value: float) -> float | None:
    """`value` to six significant digits, as the drawing gets it; None, a gap, where it is not finite.

    >>> six(1234567.0), six(float("inf"))
    (1234570.0, None)
    """
    return float(f"{value:.6g}") if math.isfinite(value) else None


def logarithmic(low: float, high: float, *, unit: str = "") -> dict[str, Any]:
    """plotly's axis from `low` to `high`, both above 0, with air around and ticks that read as numbers.

    >>> logarithmic(0.08, 2.4)["ticktext"]
    ['0.1', '0.2', '0.5', '1', '2']
    >>> logarithmic(0.92, 1.3, unit="×")["ticktext"]
    ['0.9×', '1×', '1.1×', '1.2×', '1.3×']
    """
    air = max(0.02, 0.06 * math.log10(high / low))
    bottom, top = math.log10(low) - air, math.log10(high) + air
    apart = (top - bottom) / 8  # closer ticks would touch on a phone
    sets = (_ticks(steps, bottom, top, apart) for steps in _STEPS)
    ticks = next((found for found in sets if len(found) >= 3), [low, high])
    return {
        "type": "log",
        "range": [bottom, top],
        "tickvals": ticks,
        "ticktext": [f"{tick:g}{unit}" if 1e-4 <= tick < 1e6 else f"{significant(tick)}{unit}" for tick in ticks],
    }


def _ticks(steps: tuple[float, ...], bottom: float, top: float, apart: float) -> list[float]:
    """Ticks between the two exponents; none where two of them lie less than `apart` decades from each other."""
    decades = range(math.floor(bottom) - 1, math.ceil(top) + 1)
    every = math.ceil(apart) if steps == (1,) else 1
    ticks = [step * 10.0**decade for decade in decades if decade % every == 0 for step in steps]
    ticks = [tick for tick in ticks if bottom <= math.log10(tick) <= top]
    near = any(math.log10(right / left) < apart for left, right in itertools.pairwise(ticks))
    return [] if near else ticks


_STEPS: tuple[tuple[float, ...], ...] = (
    (1, 1.01, 1.02, 1.03, 1.04, 9.6, 9.7, 9.8, 9.9),
    (1, 1.02, 1.04, 1.06, 1.08, 1.1, 9.2, 9.4, 9.6, 9.8),
    (1, 1.05, 1.1, 1.15, 1.2, 8.5, 9, 9.5),
    (1, 1.1, 1.2, 1.3, 1.4, 1.5, 7, 8, 9),
    (1, 1.25, 1.5, 2, 3, 4, 5, 6, 8),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
    (1, 3),
    (1,),
)
"""Ticks of a decade, the finest first: the first set that gives three ticks or more with room between them is taken."""

_AXIS: dict[str, Any] = {
    "gridcolor": "var(--rule)",
    "linecolor": "var(--rule)",
    "zeroline": False,
    "automargin": True,
    "ticks": "",
    "tickfont": {"color": "var(--muted)", "size": 12},
}

_STYLE: dict[str, Any] = {
    "paper_bgcolor": "var(--paper)",
    "plot_bgcolor": "var(--paper)",
    "font": {"color": "var(--muted)", "size": 12},
    "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
    "showlegend": False,
    "hovermode": "closest",
    "hoverlabel": {"bgcolor": "var(--panel)", "bordercolor": "var(--edge)", "font": {"color": "var(--ink)"}},
    "dragmode": "zoom",
}
