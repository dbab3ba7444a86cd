"""What `truestep labs` prints of a lab: what it shows, a line of verdict, its record."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from truestep.cli._lines import broken
from truestep.cli._output import print_table
from truestep.labs.asking.values import plain, said

if TYPE_CHECKING:
    from truestep.labs.lab import Lab
    from truestep.labs.shown import Check, Shown, Table

_COLUMNS = ["what", "expected", "measured", "within", "holds"]


def print_verdict(lab: Lab, shown: Shown) -> None:
    """A line for the lab, and one for each check that does not hold."""
    checks = list(shown.every_check())
    held = sum(check.holds for check in checks)
    print(f"{'holds' if shown.holds else 'FAILS'}  {lab.name}  {held} of {len(checks)} checks")
    for check in checks:
        if not check.holds:
            print(f"       {check.what}: expected {said(check.expected)}, measured {said(check.measured)}")


def print_lab(lab: Lab, shown: Shown) -> None:
    """The lab as text; its lines are broken between words where a terminal would break them within."""
    _say(f"{lab.title} ({lab.name}, {' '.join(lab.facts)})")
    print()
    _say(lab.claim)
    _say(f"Source: {lab.source}.")
    if lab.condition:
        _say(f"Only: {lab.condition}")
    print()
    print_table("What theory gives, and what was measured", _COLUMNS, map(_row, shown.checks))
    for check in shown.checks:
        _say(f"  {check.what}: {check.because}.")
    beside = [(f"Wrong: {wrong.how}; {wrong.damage}", wrong.check) for wrong in shown.wrong]
    beside += [(f"Edge: {edge.where}", edge.check) for edge in shown.edges]
    for title, check in beside:
        print()
        print_table(title, _COLUMNS, [_row(check)])
        _say(f"  {check.because}.")
    for table in shown.tables:
        print()
        _print(table)
    print()


def _say(line: str) -> None:
    print(broken(line) if sys.stdout.isatty() else line)


def _row(check: Check) -> list[str]:
    exact = check.within == 0
    return [
        check.what,
        said(check.expected),
        said(check.measured),
        "exact" if exact else f"{check.within:.2g}",
        _yes(check.holds),
    ]


def _print(table: Table) -> None:
    words = next((place for place, cell in enumerate(table.rows[0]) if not isinstance(cell, str)), len(table.columns))
    print_table(table.title, table.columns, [list(map(said, row)) for row in table.rows], words=max(1, words))


def described(lab: Lab) -> dict[str, Any]:
    """What a lab is, before it is run."""
    fields = ("name", "topic", "title", "claim", "source", "condition")
    return {field: getattr(lab, field) for field in fields} | {
        "facts": list(lab.facts),
        "after": [asdict(each) for each in lab.after],
    }


def record(lab: Lab, shown: Shown) -> dict[str, Any]:
    """All that a lab showed; a number that is not finite is given as its word."""
    return described(lab) | {"holds": shown.holds, "shown": plain(asdict(shown))}


def _yes(truth: bool) -> str:
    return "yes" if truth else "NO"
