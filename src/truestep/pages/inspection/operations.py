"""Which operations ran in which dtype: those that ran alike are one row, with the layers that they were in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truestep.pages.look.table import Cell, Table
from truestep.pages.words import count, listing

COLUMNS = ("operation", "pass", "ran in", "cast from", "result", "calls", "layers")
SHOWN = 4
"""So many layers are named; more are counted."""


def operations(record: Mapping[str, Any]) -> Table:
    """The record's operations as a table."""
    caption = "Of the first inspected attempt. Cast: its inputs had another dtype before autocast changed it for this operation."
    rows = [(each[0], [Cell(words=words) for words in each[1:5]] + [_calls(each[5]), _layers(each[6])]) for each in alike(record)]
    return Table.of(caption, COLUMNS, rows)


def alike(record: Mapping[str, Any]) -> list[tuple[str, str, str, str, str, int, list[str]]]:
    """Name, pass, dtype, what was cast, result, calls, layers; in the record's order.

    >>> one = {"name": "aten.mm", "phase": "forward", "dtype": "fp16", "cast": ["fp32"], "result": "fp16", "calls": 2}
    >>> alike({"operations": [one | {"layer": "a"}, one | {"layer": ""}]})
    [('aten.mm', 'forward', 'fp16', 'fp32', 'fp16', 4, ['a', 'the model itself'])]
    """
    found: dict[tuple[str, str, str, str, str], tuple[list[int], list[str]]] = {}
    for each in record["operations"]:
        cast = listing(each["cast"]) if each["cast"] else "not cast"
        key = (each["name"], each["phase"], each["dtype"], cast, each["result"] or "no floating point")
        calls, layers = found.setdefault(key, ([], []))
        calls.append(each["calls"])
        layers.append(each["layer"] or "the model itself")
    return [(*key, sum(calls), list(dict.fromkeys(layers))) for key, (calls, layers) in found.items()]


def _calls(calls: int) -> Cell:
    return Cell(words=count(calls), value=calls)


def _layers(names: list[str]) -> Cell:
    more = len(names) - SHOWN
    return Cell(words=listing(names) if more <= 0 else f"{', '.join(names[:SHOWN])} and {more} more")
