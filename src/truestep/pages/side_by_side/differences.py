"""What differs between two comparisons, field by field: what the protocols allow, and what the runs found around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truestep.pages.comparison.declared import environments, in_words
from truestep.pages.comparison.reading import Comparison
from truestep.pages.look.table import Cell, Table
from truestep.pages.side_by_side.sides import NAMES, Sides
from truestep.pages.words import counted


def differences(sides: Sides) -> Table | None:
    """The fields that differ, with their values on either side; None where none does."""
    rows = [(one["field"].replace("_", " "), _values(one)) for one in sides.between["differences"]]
    named = {name for name, _ in rows}
    left, right = (_environment(side) for side in (sides.left, sides.right))
    for name in dict.fromkeys((*left, *right)):
        values = (left.get(name, "not said"), right.get(name, "not said"))
        if values[0] != values[1] and name not in named:
            rows.append((name, values))
    if sides.left.hash != sides.right.hash:
        rows.append(("protocol's SHA\N{NON-BREAKING HYPHEN}256", (f"{sides.left.hash[:12]}…", f"{sides.right.hash[:12]}…")))
    if not rows:
        return None
    cells = [(name, [Cell(words=value) for value in values]) for name, values in rows]
    return Table.of("What differs between the two", ["field", *NAMES], cells)


def _values(one: Mapping[str, Any]) -> tuple[str, str]:
    left, right = one["left"], one["right"]
    if one["field"] == "initial_weights":  # of the seeds that both have
        count = sum(left[seed] != right[seed] for seed in left)
        words = f"others on {counted(count, 'seed')} of {len(left)}"
        return words, words
    return in_words(left), in_words(right)


def _environment(side: Comparison) -> dict[str, str]:
    """Each field of the environments of a comparison's runs; several values where the runs did not share one."""
    found: dict[str, list[str]] = {}
    for _, fields in environments(side):
        for name, value in fields:
            found.setdefault(name, []).append(value)
    return {name: "; ".join(dict.fromkeys(values)) for name, values in found.items()}
