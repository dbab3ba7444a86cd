"""`truestep labs`: executable facts, listed, run and shown, checked, and asked before they are told."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from truestep.cli._labs import described, print_lab, print_verdict, record
from truestep.cli._options import demand_writable
from truestep.cli._output import print_json, print_table
from truestep.errors import UsageError
from truestep.labs.asking.answers import Answers, read_answers

if TYPE_CHECKING:
    from truestep.labs.lab import Lab


@dataclass(frozen=True, kw_only=True)
class Command:
    """Run the facts of mixed-precision training before your eyes.

    Without a name: the labs by topic. With one: its claim, what theory gives beside what the engine measured, the wrong ways with
    their damage, where the claim stops being true, and the stages as tables. Exit code 1 where something measured is not what
    theory gives.

    With --ask you predict first: the run gives the answer. How sure you are is asked before it is told, and kept. Options stand
    in another order every day, the same for all who are asked that day; on sheets (--ask --json, --answers) it never changes.
    """

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="LAB")] = None
    """The lab to run; without it they are listed."""
    all: bool = False
    """Run every lab."""
    check: bool = False
    """Print a line a lab in place of all that it shows."""
    ask: bool = False
    """Ask before telling: a lab's exercises; without a name a session over all, due ones first. --json: print the questions."""
    answers: Path | None = None
    """Grade a JSON file of answers: {"lab/key": {"answer": ..., "confidence": 3}}. A wrong answer is no failure: exit code 0."""
    run_files: bool = False
    """With --answers: run the files that answers to building exercises name, from the file's folder, with all that they do."""
    progress: bool = False
    """Print what was answered, what is due, and where confidence and correctness part."""
    progress_file: Path | None = None
    """Where answers are kept, a line of JSON each; None: truestep/labs.jsonl in $XDG_STATE_HOME or ~/.local/state. Those of
    --answers are kept only where this is given."""
    milestone: Literal["1", "2"] | None = None
    """Print the file to begin with: 1, an AMP loop; 2, accumulation added."""
    file: Path | None = None
    """With --milestone: run your file, with all that it does, and hold its loop against the engine. Exit code 1: not yet."""
    html: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Write all labs as web pages into this folder: a map, exercises, pictures to move. They need no network."""
    json: bool = False
    """Print one JSON document instead of tables."""

    def run(self) -> int:
        """Lists, runs and shows, or asks and grades; returns 1 where a check does not hold."""
        self._demand_sense()
        if self.milestone is not None:
            from truestep.cli._sheets import print_milestone  # noqa: PLC0415 - it imports scipy

            return print_milestone(self.milestone, self.file, json=self.json)
        given = None if self.answers is None else read_answers(self.answers)
        from truestep.labs.shelf import lab, labs  # noqa: PLC0415 - they import torch

        chosen = labs() if self.name is None else (lab(self.name),)
        if self.ask or self.progress or given is not None:
            return self._teach(chosen, given)
        if self.html is not None:
            return _write_site(self.html, chosen)
        if not self.name and not self.all:
            self._list(chosen)
            return 0
        return self._show(chosen)

    def _demand_sense(self) -> None:
        """UsageError for words that mean nothing together."""
        if self.name and self.all:
            raise UsageError(f"--all runs every lab, {self.name} among them", hint="give a name or --all")
        if self.check and not (self.name or self.all):
            raise UsageError("--check has no lab to run", hint="add a lab's name, or --all")
        given = {
            "--all": self.all,
            "--check": self.check,
            "--ask": self.ask,
            "--answers": self.answers is not None,
            "--progress": self.progress,
            "--milestone": self.milestone is not None,
            "--html": self.html is not None,
        }
        modes = [option for option, is_given in given.items() if is_given]
        if len(modes) > 1 and modes != ["--all", "--check"]:
            raise UsageError(f"{' and '.join(modes)} are different things to do", hint="give one of them")
        for option, needed, is_given in (
            ("--run-files", ("--answers",), self.run_files),
            ("--file", ("--milestone",), self.file is not None),
            ("--progress-file", ("--ask", "--answers", "--progress"), self.progress_file is not None),
        ):
            if is_given and not set(needed) & set(modes):
                raise UsageError(f"{option} says nothing here", hint=f"it belongs to {' or '.join(needed)}")
        if self.html is not None and (self.name or self.json):
            raise UsageError("--html writes the pages of all labs", hint="give it alone")
        if self.milestone is not None and (self.name or (self.json and self.file is None)):
            raise UsageError("--milestone prints a file, or checks one", hint="give it alone, or with --file FILE")

    def _teach(self, chosen: tuple[Lab, ...], given: Answers | None) -> int:
        from truestep.cli import _asking, _progress, _sheets  # noqa: PLC0415 - they import torch
        from truestep.labs.asking.progress import home  # noqa: PLC0415 - --help does not wait for it

        path = home(os.environ) if self.progress_file is None else self.progress_file
        if self.answers is not None and given is not None:
            return _sheets.grade_file(
                self.answers, given, chosen, run_files=self.run_files, keep=self.progress_file, json=self.json
            )
        if self.progress:
            _progress.print_progress(path, chosen, json=self.json)
            return 0
        if self.json:
            _sheets.print_questions(chosen)
            return 0
        return _asking.ask(chosen, path, review=self.name is None)

    def _show(self, chosen: tuple[Lab, ...]) -> int:
        shown = []
        for each in chosen:
            shown.append(each.run())
            if not self.json:
                (print_verdict if self.check else print_lab)(each, shown[-1])
        if self.json:
            print_json({"schema": 1, "labs": [record(*pair) for pair in zip(chosen, shown, strict=True)]})
        elif self.all:
            count = sum(each.holds for each in shown)
            print(f"{count} of {len(shown)} labs hold", file=sys.stderr)
        return 0 if all(each.holds for each in shown) else 1

    def _list(self, labs: tuple[Lab, ...]) -> None:
        from truestep.labs.lab import TOPICS  # noqa: PLC0415 - beside the labs themselves

        if self.json:
            print_json({"schema": 1, "labs": [described(each) for each in labs]})
            return
        for place, (topic, title) in enumerate(TOPICS.items()):
            if place:
                print()
            rows = [[each.name, each.title, " ".join(each.facts)] for each in labs if each.topic == topic]
            print_table(title, ["lab", "fact", "rows"], rows, words=3)
        print("\nrows: of the lessons that each lab is behind, docs/lessons.md")


def _write_site(folder: Path, labs: tuple[Lab, ...]) -> int:
    """The site of all labs in `folder`; returns 1 where a check does not hold, which its page then says."""
    from truestep.labs.tables.site import site  # noqa: PLC0415 - it imports torch
    from truestep.pages.labs import file_names, prepare, write  # noqa: PLC0415 - jinja2, which other labs do without

    prepare(folder, file_names(lab.name for lab in labs))
    demand_writable(folder / "index.html", hint="name a folder that can be written to")
    record = site(labs)
    print(f"page  {write(record, folder)}", file=sys.stderr)
    return 0 if all(each["holds"] for each in record["labs"]) else 1
