"""`truestep tasks`: the built-in tasks, with what each one trains on and races to; and a file to begin one's own with."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from truestep.cli._output import print_json, print_table
from truestep.errors import TaskError, UsageError

if TYPE_CHECKING:
    from truestep.tasks import Task

_COLUMNS = ["task", "quality", "target", "better", "train", "validation", "test", "batch", "microbatches", "updates"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """Print the built-in tasks: size, quality, target. Your own is FILE.py:NAME, a subclass of truestep.tasks.Task.

    `truestep tasks new my_task.py` writes a commented file to begin with, which runs as it stands; no file is overwritten.
    """

    words: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[new FILE.py]")] = ()
    """Nothing: list the tasks. new FILE.py: write a task file."""

    json: bool = False
    """Print one JSON document instead."""

    def run(self) -> int:
        """Prints the table or the document, or writes the file and prints the task's name."""
        if self.words:
            return self._write()
        from truestep import tasks  # noqa: PLC0415 - torch is slow to import

        records = [_record(tasks.load(name)) for name in tasks.NAMES]
        if self.json:
            print_json({"schema": 1, "tasks": records})
            return 0
        print_table("built-in tasks, sizes in examples", _COLUMNS, map(_row, records), words=2)
        for record in records:
            if record["unavailable"]:
                print(record["unavailable"], file=sys.stderr)
        return 0

    def _write(self) -> int:
        from truestep.tasks.starting import write_starting_file  # noqa: PLC0415 - torch is slow to import

        if len(self.words) != 2 or self.words[0] != "new":
            said = " ".join(self.words)
            raise UsageError(f"truestep tasks takes no {said!r}", hint="truestep tasks, or: truestep tasks new my_task.py")
        task = write_starting_file(Path(self.words[1]))
        if self.json:
            print_json({"schema": 1, "task": task})
            return 0
        print(task)
        print(f"written; it runs as it stands:\n  truestep compare {shlex.quote(task)} --seeds 3", file=sys.stderr)
        return 0


def _record(task: Task) -> dict[str, Any]:
    """What the task says of itself, and what its data say, where they can be had."""
    try:
        sizes = {name: len(dataset) for name, dataset in task.splits().as_dict().items()}
        data: dict[str, Any] = {"splits": sizes, "data_digest": task.digest(), "unavailable": None}
    except TaskError as error:  # its data need an extra that is not installed
        data = {"splits": None, "data_digest": None, "unavailable": str(error)}
    return {
        "task": task.name,
        "quality": task.quality_name,
        "better": task.quality_better,
        "target": task.target,
        "batch": task.batch,
        "microbatches": task.microbatches,
        "updates": task.updates,
        "evaluate_every": task.evaluate_every,
        **data,
    }


def _row(record: dict[str, Any]) -> list[str]:
    sizes = record["splits"] or dict.fromkeys(("train", "validation", "test"), "-")
    cells = [record[name] for name in ("task", "quality", "target", "better")]
    cells += [*sizes.values(), *(record[name] for name in ("batch", "microbatches", "updates"))]
    return [str(cell) for cell in cells]
