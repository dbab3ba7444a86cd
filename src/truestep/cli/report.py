"""`truestep report`: a comparison's page, summary and exports from its records; or two comparisons side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from truestep.cli._output import print_json
from truestep.errors import RecordError, UsageError

if TYPE_CHECKING:
    from truestep.compare import Summary
    from truestep.compare.folder import Folder


@dataclass(frozen=True, kw_only=True)
class Command:
    """Build a comparison's report again from its records, finished or not: report.html, summary.json, runs.csv, summary.md
    and mllog/, in its folder. Nothing is measured, and no record is touched.

    With two folders: one page that sets them side by side, two machines or versions, say. They must have asked the same.

    Exits with 1 where a condition that truestep compare was given with --fail-if holds or cannot be told, as that did; with two
    folders nothing is judged, and it exits with 0.
    """

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR [DIR]")]
    """The folder of a comparison, as truestep compare wrote it; or of two."""

    out: Path | None = None
    """Where the page of two goes; None: side-by-side.html. The page of one is DIR/report.html."""

    markdown: bool = False
    """Print the tables of one comparison as Markdown, to paste, and write nothing."""

    json: bool = False
    """Print one JSON document instead."""

    def run(self) -> int:
        """Read, judge, write, print; 0, or 1 where a declared condition holds or cannot be told."""
        self._demand_sense()
        sides = [_opened(folder) for folder in self.folders]
        if len(sides) == 2:
            self._side_by_side(*sides)
            return 0
        (one,) = sides
        summary = _judged(one)
        if self.markdown:
            from truestep.compare.exports.markdown import markdown  # noqa: PLC0415 - --help does not wait for it

            print(markdown(one.protocol, summary), end="")
        else:
            self._one(one, summary)
        return summary.exit_code

    def _demand_sense(self) -> None:
        if len(self.folders) not in (1, 2):
            raise UsageError(f"{len(self.folders)} folders", hint="one for its report, two to set them side by side")
        if self.markdown and (self.json or len(self.folders) == 2):
            raise UsageError("--markdown prints the tables of one comparison alone", hint="leave out --json, and name one DIR")
        if self.out is not None and len(self.folders) == 1:
            raise UsageError("--out is for the page of two", hint="the report of one lies in its folder: DIR/report.html")

    def _one(self, folder: Folder, summary: Summary) -> None:
        from truestep.compare.conditions import failed_by  # noqa: PLC0415 - --help does not wait for it
        from truestep.compare.exports import export  # noqa: PLC0415 - --help does not wait for it
        from truestep.pages.comparison import write  # noqa: PLC0415 - --help does not wait for it

        page = write(folder.path, summary.as_dict())  # refuses what does not belong together: then nothing is written
        folder.write_summary(summary)
        written = [page, folder.path / "summary.json", *export(folder.path, folder.protocol, folder.records, summary)]
        if self.json:
            print_json(
                {
                    "schema": 1,
                    "protocol": folder.protocol.as_dict(),
                    "protocol_hash": folder.protocol.hash,
                    "runs": folder.records,
                    "summary": summary.as_dict(),
                    "out": str(folder.path),
                    "written": [str(path) for path in written],
                    "exit_code": summary.exit_code,
                }
            )
            return
        for row in summary.rows:
            if row.against is not None:
                print(f"{row.standing.candidate}: {row.against.text}")
        for note in summary.notes:
            print(note.text)
        for line in failed_by(summary.conditions):
            print(line)
        print(f"report    {page}")
        print(f"protocol  {folder.protocol.hash}")

    def _side_by_side(self, left: Folder, right: Folder) -> None:
        from truestep.compare.between import between  # noqa: PLC0415 - --help does not wait for it
        from truestep.pages.comparison.reading import read  # noqa: PLC0415 - --help does not wait for it
        from truestep.pages.side_by_side import write  # noqa: PLC0415 - --help does not wait for it
        from truestep.pages.side_by_side.ratios import ratios  # noqa: PLC0415 - --help does not wait for it
        from truestep.pages.side_by_side.sides import Sides  # noqa: PLC0415 - --help does not wait for it

        found = between((left.protocol, left.records), (right.protocol, right.records)).as_dict()
        one, other = (read(side.path, _judged(side).as_dict()) for side in (left, right))
        path = self.out or Path("side-by-side.html")
        write(path, one, other, found, places=(str(left.path), str(right.path)))
        if self.json:
            print_json({"schema": 1, "left": str(left.path), "right": str(right.path), "between": found, "report": str(path)})
            return
        for said in ratios(Sides(left=one, right=other, between=found)):
            print(f"{said.candidate}: {' '.join([said.text, *said.sentences])}")
        print(f"A         {left.path}")
        print(f"B         {right.path}")
        print(f"report    {path}")


def _opened(path: Path) -> Folder:
    """The folder at `path`, to be read."""
    from truestep.compare.folder import Folder  # noqa: PLC0415  # --help must not wait for torch
    from truestep.compare.kept import read_protocol, read_records  # noqa: PLC0415 - --help does not wait for it

    protocol = read_protocol(path)
    if protocol is None:
        hint = "name the folder of a comparison, as truestep compare wrote it: it holds protocol.json and records.jsonl"
        raise RecordError(f"there is no {path / 'protocol.json'}", hint=hint, path=str(path))
    if protocol.target is None:
        hint = f"its runs set the target of a comparison: name that one's folder, {path.absolute().parent}"
        raise RecordError(f"{path} holds a pilot, and no comparison", hint=hint, path=str(path))
    return Folder(path=path, protocol=protocol, records=read_records(path))


def _judged(folder: Folder) -> Summary:
    from truestep.compare import summarize  # noqa: PLC0415 - --help does not wait for it

    return summarize(folder.protocol, folder.records)
