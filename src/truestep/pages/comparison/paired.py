"""The figure of pairs: on each seed, the speedup of a candidate over the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from truestep.pages.comparison.clocks import Clock
from truestep.pages.look.candidates import Look
from truestep.pages.look.embed import figure_text
from truestep.pages.look.figure import Figure, Panel, logarithmic, plot, scatter, six
from truestep.pages.look.table import Cell, Table
from truestep.pages.words import NEITHER, TIMES, counted, ratio_words

MEAN_ROW = "mean"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A candidate's ratio to the baseline on one seed, or the mean over all seeds, as the summary gives it."""

    candidate: str
    row: str
    """"seed 3", or the mean's row."""
    speedup: float
    """Baseline / candidate, above 1 is less."""
    bound: str | None
    """What the ratio says where a run was cut at the budget; else None."""
    interval: tuple[float, float] | None = None
    """Of the mean."""

    @property
    def words(self) -> str:
        """The speedup as a table gives it.

        >>> Pair(candidate="bf16", row="seed 0", speedup=1.25, bound="at most").words
        'at most 1.25×'
        """
        return ratio_words(self.speedup, bound=self.bound, interval=self.interval)

    @property
    def drawn(self) -> bool:
        """Whether there is a ratio to draw: one of the two reached the target."""
        return self.words != NEITHER


def paired(clock: Clock, standings: Sequence[Mapping[str, Any]], drawn: Mapping[str, Look], labels: Mapping[str, str]) -> Figure:
    """Each seed's ratio of baseline to candidate, a dot per pair, and the mean with its interval below them.

    `standings` are the summary's candidates, the baseline first.
    """
    baseline = standings[0]["candidate"]
    over = labels.get(baseline, baseline)
    name, title = f"paired-by-{clock.name}", f"Seed by seed: speedup over {over} in {clock.noun}"
    source = f"summary.json, against.ratios.{clock.field}: seeds, speedup and interval"
    found = {one["candidate"]: ratio for one in standings[1:] if (ratio := one["against"]["ratios"][clock.field]) is not None}
    pairs = [pair for candidate, ratio in found.items() for pair in _pairs(candidate, ratio)]
    shown = [pair for pair in pairs if pair.drawn]
    if not shown:
        why = f"There is no seed on which {baseline} and another candidate both ran and one of them reached the target."
        return Figure(name=name, title=title, source=source, absent=why)
    means = [mean for candidate, ratio in found.items() if (mean := _mean(candidate, ratio)).drawn]
    present = {key: look for key, look in drawn.items() if any(pair.candidate == key for pair in shown)}
    lost = len(pairs) - len(shown)
    return Figure(
        name=name,
        title=title,
        shows=f"Right: {clock.noun} to the target, those of {baseline} divided by the candidate's on the same seed "
        f"(logarithmic). Right of the line at 1 the candidate took less.{_bounds(shown)}",
        source=source,
        panels=(Panel(plot=_plot(shown, means, present, labels, x=f"speedup over {figure_text(over)} in {clock.noun}")),),
        notes=(f"Not drawn: {counted(lost, 'pair')} of which neither run reached the target.",) if lost else (),
        table=_table(clock, [*pairs, *means], [*present], labels),
        legend=tuple((labels[key], look) for key, look in present.items()),
    )


def _pairs(candidate: str, ratio: Mapping[str, Any]) -> list[Pair]:
    return [
        Pair(candidate=candidate, row=f"seed {one['seed']}", speedup=one["speedup"], bound=one["bound"]) for one in ratio["seeds"]
    ]


def _mean(candidate: str, ratio: Mapping[str, Any]) -> Pair:
    interval = ratio["interval"] and (ratio["interval"]["low"], ratio["interval"]["high"])
    return Pair(candidate=candidate, row=MEAN_ROW, speedup=ratio["speedup"], bound=ratio["bound"], interval=interval)


def _bounds(shown: Sequence[Pair]) -> str:
    if not any(pair.bound for pair in shown):
        return ""
    return " A triangle is a bound and points to where the ratio lies: one of the two runs never reached the target."


def _plot(
    shown: Sequence[Pair], means: Sequence[Pair], present: Mapping[str, Look], labels: Mapping[str, str], *, x: str
) -> dict[str, Any]:
    rows = [*dict.fromkeys(pair.row for pair in sorted(shown, key=lambda pair: int(pair.row.split()[1]))), MEAN_ROW]
    traces = []
    for place, (key, look) in enumerate(present.items(), start=1):
        aside = 0.8 * (place / (len(present) + 1) - 0.5)  # candidates of one row lie below each other
        own = {row: rows.index(row) + aside for row in rows}
        traces.append(_dots([pair for pair in shown if pair.candidate == key], own, look, labels[key]))
        traces += [_mean_mark(mean, own, look, labels[key]) for mean in means if mean.candidate == key]
    ends = [1.0, *(end for pair in (*shown, *means) for end in _ends(pair))]
    one = {"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    one |= {"line": {"color": "var(--edge)", "width": 1.5}}
    return plot(
        traces,
        x=x,
        height=70 + len(rows) * max(36, 16 * len(present)),
        xaxis=logarithmic(min(ends), max(ends), unit=TIMES),
        yaxis={
            "tickvals": [*range(len(rows))],
            "ticktext": rows,
            "range": [len(rows) - 0.5, -0.5],
            "fixedrange": True,
        },
        shapes=[one],
    )


def _ends(pair: Pair) -> tuple[float, ...]:
    return (pair.speedup, *(pair.interval or ()))


_TRIANGLES = {"at least": "triangle-right-open", "at most": "triangle-left-open"}


def _dots(pairs: Sequence[Pair], rows: Mapping[str, float], look: Look, label: str) -> dict[str, Any]:
    return scatter(
        [six(pair.speedup) for pair in pairs],
        [rows[pair.row] for pair in pairs],
        look,
        mode="markers",
        marker={
            "color": look.colour,
            "size": 11,
            "symbol": [_TRIANGLES[pair.bound] if pair.bound else look.marker for pair in pairs],
            "line": {"width": [2 if pair.bound else 0 for pair in pairs]},
        },
        text=[figure_text(f"{label}, {pair.row}: {pair.words}") for pair in pairs],
        hovertemplate="%{text}<extra></extra>",
    )


def _mean_mark(mean: Pair, rows: Mapping[str, float], look: Look, label: str) -> dict[str, Any]:
    low, high = mean.interval or (mean.speedup, mean.speedup)
    return scatter(
        [six(mean.speedup)],
        [rows[mean.row]],
        look,
        mode="markers",
        marker={"color": look.colour, "size": 11, "symbol": look.marker},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [six(high - mean.speedup)],
            "arrayminus": [six(mean.speedup - low)],
            "color": look.colour,
            "thickness": 2,
            "width": 5,
        },
        text=[figure_text(f"{label}, mean over the seeds: {mean.words}")],
        hovertemplate="%{text}<extra></extra>",
    )


def _table(clock: Clock, pairs: Sequence[Pair], candidates: Sequence[str], labels: Mapping[str, str]) -> Table:
    found = {(pair.candidate, pair.row): pair for pair in pairs}
    rows = [
        (row, [_cell(found.get((candidate, row))) for candidate in candidates])
        for row in dict.fromkeys(pair.row for pair in pairs)
    ]
    columns = ["seed", *(labels[name] for name in candidates)]
    return Table.of(f"Speedup over the baseline in {clock.noun}", columns, rows)


def _cell(pair: Pair | None) -> Cell:
    if pair is None:
        return Cell(words="no pair")
    return Cell(words=pair.words, value=pair.speedup if pair.drawn else None)
