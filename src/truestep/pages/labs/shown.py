"""What a lab showed as tables of words: theory beside measurement, wrong ways with their damage, edges, stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truestep.pages.look.table import Cell, Table

CHECKED = ("what", "theory gives", "was measured", "within", "verdict")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """All that a lab's page tells after the exercises."""

    checks: Table
    wrong: Table
    edges: Table
    tables: tuple[Table, ...]


def shown(lab: Mapping[str, Any]) -> Shown:
    """The tables of a lab of the record."""
    return Shown(
        checks=_checks("What theory gives, and what the engine measured", [(each["what"], (), each) for each in lab["checks"]]),
        wrong=_checks(
            "Wrong ways, run", [(each["how"], (f"Damage: {each['damage']}.",), each["check"]) for each in lab["wrong"]]
        ),
        edges=_checks("Where the claim stops", [(each["where"], (), each["check"]) for each in lab["edges"]]),
        tables=tuple(map(_table, lab["tables"])),
    )


def words(value: Any) -> str:
    """A value to seven digits; a tuple in brackets, a dash for none.

    >>> words(204.80000305), words([1.2, 3]), words(True), words(None), words(65536)
    ('204.8', '[1.2, 3]', 'yes', '-', '65536')
    """
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(words, value))}]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def cell(value: Any) -> Cell:
    """A value's words, with the number behind them."""
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return Cell(words=words(value), value=number)


def _checks(caption: str, rows: list[tuple[str, tuple[str, ...], Mapping[str, Any]]]) -> Table:
    """A row for each name, words below it, and check."""
    return Table(caption=caption, columns=CHECKED, rows=tuple(_row(*row) for row in rows))


def _row(name: str, below: tuple[str, ...], check: Mapping[str, Any]) -> tuple[Cell, ...]:
    because = f"{check['because']}." if name == check["what"] else f"{check['what']}: {check['because']}."
    first = Cell(words=name, below=tuple(Cell(words=each) for each in (*below, because)))
    within = Cell(words="exact") if check["within"] == 0 else Cell(words=f"{check['within']:.2g}", value=check["within"])
    verdict = Cell(words="✓ holds" if check["holds"] else "✗ does not hold")
    return first, cell(check["expected"]), cell(check["measured"]), within, verdict


def _table(table: Mapping[str, Any]) -> Table:
    rows = tuple(tuple(map(cell, row)) for row in table["rows"])
    return Table(caption=table["title"], columns=tuple(table["columns"]), rows=rows)
