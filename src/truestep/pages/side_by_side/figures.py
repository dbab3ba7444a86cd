"""The figures of two comparisons: both races in one drawing, and B against A seed by seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from truestep.pages.comparison.clocks import EXAMPLES, SECONDS, Clock
from truestep.pages.comparison.paired import paired
from truestep.pages.comparison.race import not_yet
from truestep.pages.look.candidates import Look, looks
from truestep.pages.look.figure import Figure, Panel
from truestep.pages.side_by_side.sides import NAMES, Sides, together


def figures(sides: Sides) -> tuple[Figure, ...]:
    """The figures, in the order of the page."""
    return (_race(SECONDS, sides), _race(EXAMPLES, sides), _pairs(SECONDS, sides), _pairs(EXAMPLES, sides))


def _race(clock: Clock, sides: Sides) -> Figure:
    """Both races, a panel for each candidate with a curve for each side: A's solid, B's dashed."""
    names = [together(name, side) for name in sides.candidates for side in NAMES]
    shown = sides.labels if clock is SECONDS else {name: name for name in sides.candidates}
    labels = {together(name, side): together(label, side) for name, label in shown.items() for side in NAMES}
    figure = not_yet(clock, sides.records(), looks(names), labels)
    if figure.shows is None:
        return figure
    found = [_panel(clock, sides, name, shown[name]) for name in sides.candidates]
    panels = [panel for panel in found if panel is not None]
    end = max(panel.plot["layout"]["xaxis"]["range"][1] for panel in panels)
    for panel in panels:
        panel.plot["layout"]["xaxis"]["range"] = [0, end]
    shows = f"{figure.shows} The solid curve with circles is A's, the dashed one with squares B's."
    return replace(figure, panels=tuple(panels), legend=(), shows=shows, source=f"{figure.source}, of both")


def _panel(clock: Clock, sides: Sides, name: str, label: str) -> Panel | None:
    """One candidate's two curves, in its colour; None where no run of it has ended."""
    look, keys = sides.drawn[name], [together(name, side) for side in NAMES]
    own = [record for record in sides.records() if record["candidate"] in keys]
    styles = zip(keys, (0, 2), ("solid", "dash"), ("circle", "square"), strict=True)  # a later slot's line is thinner
    drawn = {key: Look(slot=slot, colour=look.colour, dash=dash, marker=marker) for key, slot, dash, marker in styles}
    found = not_yet(clock, own, drawn, {key: key for key in keys})
    if not found.panels:
        return None
    plot = found.panels[0].plot
    plot["layout"]["height"] = 260
    return Panel(plot=plot, label=label, look=look)


def _pairs(clock: Clock, sides: Sides) -> Figure:
    """A's over B's, a dot per seed that both have run."""
    ratios = {name: {"ratios": sides.between["ratios"][name]} for name in sides.candidates}
    standings: list[dict[str, Any]] = [{"candidate": "A"}]
    standings += [{"candidate": name, "against": found} for name, found in ratios.items()]
    figure = paired(clock, standings, sides.drawn, sides.labels)
    figure = replace(
        figure,
        title=f"Seed by seed: A / B in {clock.noun}",
        source=f"the records of both, to_target.{clock.field}, as between.ratios in this page's JSON has them",
    )
    for panel in figure.panels:
        panel.plot["layout"]["xaxis"]["title"]["text"] = f"A / B in {clock.noun}"
    if figure.absent:
        return replace(figure, absent="There is no seed that both have run and on which one of the two reached the target.")
    shows = f"Right: {clock.noun} to the target, those of A divided by those of B on the same seed (logarithmic). Right of the "
    return replace(figure, shows=f"{shows}line at 1 B took less. A triangle is a bound: one of the two runs never reached it.")
