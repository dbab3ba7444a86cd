"""`truestep labs`: executable facts, listed, run and shown, checked."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from truestep.cli._output import print_json, print_table
from truestep.errors import UsageError

if TYPE_CHECKING:
    from truestep.labs.lab import Lab
    from truestep.labs.shown import Check, Shown, Table

_COLUMNS = ["what", "expected", "measured", "within", "holds"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """Run the facts of mixed-precision training before your eyes.

    Without a name: the labs by topic. With one: its claim, what theory gives beside what the engine measured, the wrong ways with
    their damage, where the claim stops being true, and the stages as tables. Exit code 1 where something measured is not what
    theory gives.
    """

    name: Annotated[str | None, tyro.conf.Positional] = None
    """The lab to run; without it they are listed."""
    all: bool = False
    """Run every lab."""
    check: bool = False
    """Print a line a lab in place of all that it shows."""
    json: bool = False
    """Print one JSON document instead of tables."""

    def run(self) -> int:
        """Lists, or runs and shows; returns 1 where a check does not hold."""
        from truestep.labs.shelf import lab, labs  # noqa: PLC0415 - the labs import torch

        if self.name and self.all:
            raise UsageError(f"--all runs every lab, {self.name} among them", hint="give a name or --all")
        if self.check and not (self.name or self.all):
            raise UsageError("--check has no lab to run", hint="add a lab's name, or --all")
        if not self.name and not self.all:
            self._list(labs())
            return 0
        chosen = labs() if self.all else (lab(self.name or ""),)
        shown = []
        for each in chosen:
            shown.append(each.run())
            if not self.json:
                (_verdict if self.check else _show)(each, shown[-1])
        if self.json:
            print_json({"schema": 1, "labs": [_record(*pair) for pair in zip(chosen, shown, strict=True)]})
        elif self.all:
            count = sum(each.holds for each in shown)
            print(f"{count} of {len(shown)} labs hold", file=sys.stderr)
        return 0 if all(each.holds for each in shown) else 1

    def _list(self, labs: tuple[Lab, ...]) -> None:
        from truestep.labs.lab import TOPICS  # noqa: PLC0415 - beside the labs themselves

        if self.json:
            print_json({"schema": 1, "labs": [_described(each) for each in labs]})
            return
        for place, (topic, title) in enumerate(TOPICS.items()):
            if place:
                print()
            rows = [[each.name, each.title, " ".join(each.facts)] for each in labs if each.topic == topic]
            print_table(title, ["lab", "fact", "rows"], rows, words=3)


def _verdict(lab: Lab, shown: Shown) -> None:
    """A line for the lab, and one for each check that does not hold."""
    checks = list(shown.every_check())
    held = sum(check.holds for check in checks)
    print(f"{'holds' if shown.holds else 'FAILS'}  {lab.name}  {held} of {len(checks)} checks")
    for check in checks:
        if not check.holds:
            print(f"       {check.what}: expected {_text(check.expected)}, measured {_text(check.measured)}")


def _show(lab: Lab, shown: Shown) -> None:
    """The lab as text."""
    print(f"{lab.title} ({lab.name}, {' '.join(lab.facts)})\n\n{lab.claim}\nSource: {lab.source}.")
    if lab.condition:
        print(f"Only: {lab.condition}")
    print()
    print_table("What theory gives, and what was measured", _COLUMNS, map(_row, shown.checks))
    for check in shown.checks:
        print(f"  {check.what}: {check.because}.")
    for wrong in shown.wrong:
        print()
        print_table(f"Wrong: {wrong.how}; {wrong.damage}", _COLUMNS, [_row(wrong.check)])
        print(f"  {wrong.check.because}.")
    for edge in shown.edges:
        print()
        print_table(f"Edge: {edge.where}", _COLUMNS, [_row(edge.check)])
        print(f"  {edge.check.because}.")
    for table in shown.tables:
        print()
        _print(table)
    print()


def _row(check: Check) -> list[str]:
    exact = check.within == 0
    return [
        check.what,
        _text(check.expected),
        _text(check.measured),
        "exact" if exact else f"{check.within:.2g}",
        _yes(check.holds),
    ]


def _print(table: Table) -> None:
    words = next((place for place, cell in enumerate(table.rows[0]) if not isinstance(cell, str)), len(table.columns))
    print_table(table.title, table.columns, [list(map(_text, row)) for row in table.rows], words=max(1, words))


def _text(value: Any) -> str:
    """A value in print: seven digits, a tuple in brackets, - for none."""
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bool):
        return _yes(value)
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _yes(truth: bool) -> str:
    return "yes" if truth else "NO"


def _described(lab: Lab) -> dict[str, Any]:
    fields = ("name", "topic", "title", "claim", "source", "condition")
    return {field: getattr(lab, field) for field in fields} | {
        "facts": list(lab.facts),
        "after": [asdict(each) for each in lab.after],
    }


def _record(lab: Lab, shown: Shown) -> dict[str, Any]:
    """All that a lab showed; a number that is not finite is given as its word."""
    return _described(lab) | {"holds": shown.holds, "shown": _plain(asdict(shown))}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value
