"""A comparison in the terminal: the tables, the verdicts, what limits them, what failed, and where the rest lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truestep.cli._output import print_table
from truestep.pages.words import significant

if TYPE_CHECKING:
    from pathlib import Path

    from truestep.compare import Summary
    from truestep.compare.folder import Folder


def print_tables(folder: Folder, summary: Summary, report: Path) -> None:
    """The tables, the verdicts, what limits them, what failed, and where the rest lies."""
    from truestep.compare import table  # noqa: PLC0415 - --help does not wait for it
    from truestep.compare.conditions import failed_by  # noqa: PLC0415 - --help does not wait for it

    standings = [row.standing for row in summary.rows]
    print_table(table.title(folder.protocol), table.TO_TARGET, map(table.to_target_row, standings), words=2)
    print()
    print_table("On the way", *table.on_the_way(standings))
    rivals = [row for row in summary.rows if row.against is not None]
    if rivals:
        print()
        print_table(f"Against {folder.protocol.baseline}, by seed", table.AGAINST, map(table.against_row, rivals))
        print()
        for row in rivals:
            assert row.against is not None
            print(f"{row.standing.candidate}: {row.against.text}")
    print()
    for footer in table.FOOTERS:
        print(footer)
    for note in summary.notes:
        print(note.text)
    for row in summary.rows:
        for failure in row.standing.failures:
            why = "" if failure["detail"] is None else f": {failure['detail']}"
            if failure["best"] is not None:
                why += f"; best {folder.protocol.quality} on validation {significant(failure['best'], 4)}"
            print(f"Not reached: {row.standing.candidate}, seed {failure['seed']}, {failure['status']}{why}")
            if failure["hint"] is not None:
                print(f"  hint: {failure['hint']}")
    for name in folder.interrupted():
        print(f"Interrupted and run again: {name}")
    for record in folder.records:
        for earlier in record.get("process", {}).get("earlier", ()):
            print(f"Failed and run again: {record['candidate']}, seed {record['seed']}, {earlier['status']}: {earlier['detail']}")
    for line in failed_by(summary.conditions):
        print(line)
    print(f"report    {report}")
    print(f"protocol  {summary.protocol_hash}")
