"""The figures of two comparisons: both races in one drawing, and B against A seed by seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from truestep.pages.comparison.clocks import EXAMPLES, SECONDS, Clock
from truestep.pages.comparison.paired import paired
from truestep.pages.comparison.race import not_yet
from truestep.pages.look.candidates import looks
from truestep.pages.look.figure import Figure
from truestep.pages.side_by_side.sides import NAMES, Sides, together


def figures(sides: Sides) -> tuple[Figure, ...]:
    """The figures, in the order of the page."""
    return (_race(SECONDS, sides), _race(EXAMPLES, sides), _pairs(SECONDS, sides), _pairs(EXAMPLES, sides))


def _race(clock: Clock, sides: Sides) -> Figure:
    """Both races, a curve for each side of each candidate, the two of a candidate next to each other in the legend."""
    names = {together(name, side): sides.labels[name] for name in sides.candidates for side in NAMES}
    labels = {key: f"{label} in {key[-1]}" if clock is SECONDS else key for key, label in names.items()}
    figure = not_yet(clock, sides.records(), looks(names), labels)
    return replace(figure, source=f"{figure.source}, of both")


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
    if figure.absent:
        return replace(figure, absent="There is no seed that both have run and on which one of the two reached the target.")
    shows = f"Right: {clock.noun} to the target, those of A divided by those of B on the same seed (logarithmic). Right of the "
    return replace(figure, shows=f"{shows}line at 1 B took less. A triangle is a bound: one of the two runs never reached it.")
