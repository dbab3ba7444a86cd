"""The picture as values: histograms as paths over powers of two, the regions of each format, and what a reader may choose.

After figure 3 of Micikevicius et al. 2018 (arXiv 1710.03740): magnitudes in percent of all values, zeros beside them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from truestep.pages.inspection.wording import ALL, Row, exponent_in_use, layer, nothing
from truestep.pages.words import significant

Record = Mapping[str, Any]
REGIONS = (("zero", "zero"), ("subnormal", "subnormal"), ("normal", "normal"), ("overflow", "overflow"))
FATES = (
    ("zero", "become zero"),
    ("subnormal", "subnormal: fewer bits"),
    ("normal", "normal: all bits"),
    ("overflow", "overflow"),
)
FIRST = "activation gradients"
"""What the picture shows before a reader chooses: it is what the loss scale is for."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Ticks and levels, each with its place in percent of the drawing."""

    levels: tuple[tuple[str, float], ...]
    ticks: tuple[tuple[str, float], ...]
    few_ticks: tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """All that the template and the script need to draw."""

    sets: tuple[dict[str, Any], ...]
    groups: tuple[tuple[str, tuple[tuple[int, str], ...]], ...]
    """By kind: the place in `sets` and the words of each choice."""
    layers: tuple[tuple[str, tuple[tuple[int, str], ...]], ...]
    """By layer: the place in `sets` and the kind of each small drawing."""
    formats: tuple[dict[str, Any], ...]
    exponents: range
    axes: Axes
    data: dict[str, Any]


def picture(record: Record) -> Picture:
    """The picture of all rows of the record; without rows its `sets` are empty."""
    rows = [*record["whole"], *record["numbers"]]
    exponents = _exponents(record, rows)
    low, high = _window(rows, exponents)
    decades = _decades(rows)
    sets = tuple(_set(row, decades) for row in rows)
    formats = tuple(_format(name, region) for name, region in record["regions"].items())
    names = [each["name"] for each in formats]
    start = {
        "set": next((k for k, row in enumerate(rows) if row["kind"] == FIRST), 0),
        "format": names.index(record["format"]) if record["format"] in names else 0,
        "exponent": min(max(exponent_in_use(record), exponents[0]), exponents[-1]),
    }
    return Picture(
        sets=sets,
        groups=_grouped([(row["kind"], k, f"{row['kind']}, {layer(row)}") for k, row in enumerate(rows)]),
        layers=_grouped([(_heading(row), k, row["kind"]) for k, row in enumerate(rows)]),
        formats=formats,
        exponents=exponents,
        axes=_axes(low, high, decades),
        data={"window": [low, high], "formats": formats, "sets": sets, "start": start},
    )


def region_edges(region: Mapping[str, float]) -> tuple[float, float, float]:
    """Where a format's regions begin, upwards from zero: subnormal, normal, overflow; the first magnitude that rounds there.

    Numbers up to half the smallest become 0. Half a distance below the smallest normal number they round up to it; half a
    distance above the largest they round beyond.

    >>> region_edges({"smallest_subnormal": 2.0**-24, "smallest_normal": 2.0**-14, "largest": 65504.0})[2]
    65520.0
    """
    smallest, normal, largest = (region[name] for name in ("smallest_subnormal", "smallest_normal", "largest"))
    spacing = 2.0 ** math.floor(math.log2(largest)) * (smallest / normal)
    return smallest / 2, normal - smallest / 2, largest + spacing / 2


def _format(name: str, region: Mapping[str, float]) -> dict[str, Any]:
    zero, normal, top = map(math.log2, region_edges(region))
    words = f"{name} (largest {significant(region['largest'])}, smallest 2^{math.log2(region['smallest_subnormal']):.0f})"
    return {"name": name, "words": words, "zero": zero, "normal": normal, "top": top}


def _set(row: Row, decades: int) -> dict[str, Any]:
    """One histogram: its path at scale 1, the height of its zeros, and words where there is nothing to draw."""
    spread = row["spread"]
    elements = spread["elements"]
    bars = [f"M{exponent} 100V{100 - _height(count / elements, decades):.4g}h1V100z" for exponent, count in spread["histogram"]]
    words = nothing(row)
    return {
        "name": f"{row['kind'].capitalize()} of {layer(row)}",
        "path": "".join(bars) or None,
        "zero_height": round(_height(spread["zeros"] / elements, decades), 2) if elements else 0,
        "absent": None if bars else f"{words[0].upper()}{words[1:]}: nothing lies on the number line.",
    }


def _height(share: float, decades: int) -> float:
    """The height of a share, in percent of the drawing: logarithmic, over so many decades below 1."""
    return 0.0 if share == 0 else max(0.0, 100 * (1 + math.log10(share) / decades))


def _decades(rows: Sequence[Row]) -> int:
    """How many decades below 100 % the smallest bar of all needs, so that it is still seen; 3 at least."""
    shares = [count / row["spread"]["elements"] for row in rows for _, count in row["spread"]["histogram"]]
    return max(3, math.ceil(-math.log10(min(shares, default=1.0)) + 0.2))


def _exponents(record: Record, rows: Sequence[Row]) -> range:
    """The scales to choose from: from 1 to 2^24, and on to what is in use or advised, as far as the tables go."""
    wanted = [0, 24, exponent_in_use(record)]
    wanted += [row["scales"]["advised"] for row in rows if row["scales"] is not None and row["scales"]["advised"] is not None]
    tables = [table for row in rows for table in row["tables"].values()]
    first = max((table["from"] for table in tables), default=0)
    last = min((table["from"] + len(table["flushed"]) - 1 for table in tables), default=0)
    return range(max(min(wanted), first), min(max(wanted), last) + 1)


def _window(rows: Sequence[Row], exponents: range) -> tuple[int, int]:
    """The powers of two that the drawing spans: every bar at every scale, and float16's whole line."""
    low, high = [-28], [18]
    for row in rows:
        bars = [exponent for exponent, _ in row["spread"]["histogram"]]
        scaled = row["scales"] is not None
        low += [bar + (exponents[0] if scaled else 0) for bar in bars]
        high += [bar + 1 + (exponents[-1] if scaled else 0) for bar in bars]
    return min(low) - 1, max(high) + 1


def _axes(low: int, high: int, decades: int) -> Axes:
    levels = [(f"{100 * 10.0**-k:g} %", round(100 * (1 - k / decades), 2)) for k in range(1, decades)]
    return Axes(levels=tuple(levels), ticks=_ticks(low, high, 8), few_ticks=_ticks(low, high, 4))


def _ticks(low: int, high: int, most: int) -> tuple[tuple[str, float], ...]:
    """At most `most` round powers of two, none so near an end that its words would stick out."""
    apart = next(step for step in (8, 16, 32, 64, 128) if (high - low) / step <= most)
    places = range(-(-low // apart) * apart, high, apart)
    at = [(str(exponent), round(100 * (exponent - low) / (high - low), 2)) for exponent in places]
    return tuple((words, place) for words, place in at if 4 <= place <= 96)


def _heading(row: Row) -> str:
    return layer(row) if layer(row) == ALL else f"{layer(row)} ({row['module']})"


def _grouped(rows: Sequence[tuple[str, int, str]]) -> tuple[tuple[str, tuple[tuple[int, str], ...]], ...]:
    groups: dict[str, list[tuple[int, str]]] = {}
    for name, place, words in rows:
        groups.setdefault(name, []).append((place, words))
    return tuple((name, tuple(members)) for name, members in groups.items())
