"""The inspection in numbers: by layer and kind, by format for the whole model, and what updates move; each cell the record's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truestep.pages.inspection.wording import ALL, Row, exponent_in_use, layer, magnitudes, power, scales
from truestep.pages.look.table import Cell, Table
from truestep.pages.words import count, percent

Record = Mapping[str, Any]
FATES = (("flushed", "zero"), ("subnormal", "subnormal"), ("overflowed", "overflow"))


@dataclass(frozen=True, kw_only=True)
class Titled:
    """A table, its heading, and what must be known to read it."""

    caption: str
    table: Table
    notes: tuple[str, ...] = ()


def by_layer(record: Record) -> tuple[Titled, ...]:
    """One row for each kind of each layer, all layers together first."""
    columns = (
        "layer and kind",
        "magnitudes",
        "format",
        "at scale 1",
        "at the scale in use",
        "measured",
        "scales that lose nothing",
    )
    rows = [(f"{layer(row)}: {row['kind']}", _layer_cells(row)) for row in (*record["whole"], *record["numbers"])]
    caption = "By layer and kind"
    notes = (
        "At the scale in use: at the loss scale of each attempt. Measured: what was zero, or infinite or not a number, in the "
        "attempt itself and was not in float32.",
        "Of magnitudes, each end is the power of two at or below the number. Of scales, only those of gradients are asked for.",
    )
    return (Titled(caption=caption, table=Table.of(caption, columns, rows), notes=notes),) if rows else ()


def by_format(record: Record) -> tuple[Titled, ...]:
    """One row for each format, one column for each kind of all layers: at scale 1, and at the scale in use."""
    whole = record["whole"]
    if not whole:
        return ()
    found = [_titled("All formats at scale 1", {row["kind"]: _every_format(row) for row in whole}, _FORMAT_NOTES)]
    exponent = exponent_in_use(record)
    scaled = {row["kind"]: _at(row, exponent) for row in whole if row["scales"] is not None}
    if exponent and scaled and all(scaled.values()):
        found.append(_titled(f"All formats at scale {power(exponent)}, gradients alone", scaled, ()))
    return tuple(found)


def movements(record: Record) -> tuple[Titled, ...]:
    """One row for each parameter: the share of its weights that the update would not move, by the format that stores them."""
    rows = []
    for each in record["movements"]:
        cells = [_share(each["stuck_share"][name]) for name in each["stuck"]]
        rows.append((each["parameter"], [Cell(words=count(each["elements"]), value=each["elements"]), *cells]))
    if not rows:
        return ()
    caption = "Updates that would not move a weight"
    formats = list(record["movements"][0]["stuck"])
    note = "An update below half the weight's spacing in a format leaves it where it is, if that format stores the weights."
    return (Titled(caption=caption, table=Table.of(caption, ["parameter", "updates", *formats], rows), notes=(note,)),)


_FORMAT_NOTES = (
    "MX formats: blocks that share a power of two, chosen by each block's largest number. By tensor: each tensor scaled by the "
    "largest power of two at which nothing overflows. Both choose a scale of their own, whatever the loss scale; "
    "both are of the first inspected attempt alone, and of a large tensor from blocks drawn at random.",
)


def _layer_cells(row: Row) -> list[Cell]:
    spread, ranges = row["spread"], row["scales"]
    below = [Cell(words=f"{count(spread[name])} {words}", value=spread[name]) for name, words in _BESIDE if spread[name]]
    normal = None if ranges is None else ranges["normal"]
    words = () if normal is None else (Cell(words=f"all normal: {power(normal[0])} .. {power(normal[1])}"),)
    return [
        Cell(words=magnitudes(row), below=tuple(below)),
        Cell(words=row["format"]),
        _losses(row["at_one"]),
        _losses(row["in_use"]),
        _measured(row["measured"]),
        Cell(words=scales(row), below=words),
    ]


_BESIDE = (("zeros", "zeros"), ("infinities", "infinite"), ("nans", "not a number"))


def _every_format(row: Row) -> dict[str, Cell]:
    """By format: plain, then blocks, then scaled by tensor."""
    found = {name: _losses(each) for name, each in (row["formats"] | row["blocks"]).items()}
    return found | {f"{name}, by tensor": _losses(each) for name, each in row["per_tensor"].items()}


def _at(row: Row, exponent: int) -> dict[str, Cell]:
    """By format, from the row's tables; empty where they do not reach so far."""
    found = {}
    for name, table in row["tables"].items():
        place = exponent - table["from"]
        if 0 <= place < len(table["flushed"]):
            elements = row["spread"]["nonzero"]
            shares = {f"{fate}_share": table[fate][place] / elements if elements else None for fate, _ in FATES}
            found[name] = _losses(shares)
    return found


def _titled(caption: str, cells: Mapping[str, Mapping[str, Cell]], notes: tuple[str, ...]) -> Titled:
    """`cells` by kind and format, as a table with a row for each format."""
    names = dict.fromkeys(name for column in cells.values() for name in column)
    absent = Cell(words="not counted")
    rows = [(name, [column.get(name, absent) for column in cells.values()]) for name in names]
    table = Table.of(f"{caption}, {ALL}", ["format", *cells], rows)
    return Titled(caption=caption, table=table, notes=notes)


def _losses(losses: Mapping[str, Any]) -> Cell:
    """Shares that become zero, subnormal, too large: one line each."""
    shares = [(losses[f"{fate}_share"], words) for fate, words in FATES]
    if shares[0][0] is None:
        return Cell(words="no values but zero")
    first, *rest = (Cell(words=f"{words} {percent(share)}", value=share) for share, words in shares)
    return Cell(words=first.words, value=first.value, below=tuple(rest))


def _measured(found: Mapping[str, Any] | None) -> Cell:
    if found is None:
        return Cell(words="not measured")
    if found["flushed_share"] is None:
        return Cell(words="no values but zero")
    below = [Cell(words=f"overflow {percent(found['overflowed_share'])}", value=found["overflowed_share"])]
    if found["unmatched"]:
        below.append(Cell(words=f"{count(found['unmatched'])} without a counterpart", value=found["unmatched"]))
    return Cell(words=f"zero {percent(found['flushed_share'])}", value=found["flushed_share"], below=tuple(below))


def _share(share: float | None) -> Cell:
    return Cell(words="no updates") if share is None else Cell(words=percent(share), value=share)
