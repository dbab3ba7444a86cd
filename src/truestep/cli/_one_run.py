"""One run in the terminal: what a resume found, how the run ended, where its time went, and where the rest lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truestep.cli._output import print_table
from truestep.pages.words import NOT_MEASURED, count, percent, seconds, significant

if TYPE_CHECKING:
    from pathlib import Path

    from truestep.checkpoint import Restored
    from truestep.run import RunRecord
    from truestep.timing.measured import Table


def resumed_lines(restored: Restored | None) -> list[str]:
    """What a resume found, in lines."""
    if restored is None:
        return ["no checkpoint is there: beginning"]
    passed = [f"passed over {path}: {why}" for path, why in restored.refused]
    return [*passed, f"going on after attempt {restored.attempts} from {restored.path}"]


def print_run(path: Path, record: RunRecord, *, has_target: bool) -> None:
    """How it ended, in a row; what failed; where the rest lies. `has_target` tells a target missed from one that nobody set."""
    print_table(
        f"{path}: {record.candidate}, seed {record.seed}, {record.device}",
        _COLUMNS,
        [_row(record, has_target=has_target)],
        words=1,
    )
    if record.detail is not None:
        print(f"{record.status}: {record.detail}")
    if record.hint is not None:
        print(f"  hint: {record.hint}")
    print(f"weights  {record.weights_digest or 'none'}")


def print_profile(table: Table) -> None:
    """Where the time of an attempt went, and where its trace lies."""
    from truestep.timing import report  # noqa: PLC0415 - --help does not wait for torch

    print()
    print_table(report.title(table), report.columns(table), report.rows(table), words=1)
    for line in report.sentences(table):
        print(line)


_COLUMNS = ["ended", "quality", "test", "target after", "attempts", "completed", "skipped", "rate", "train", "waste", "total"]


_NO_TARGET = {True: "not reached", False: "no target"}


def _row(record: RunRecord, *, has_target: bool) -> list[str]:
    counts, reached = record.counts, record.to_target
    return [
        record.status,
        _quality(record.last),
        _quality(record.test_quality),
        _NO_TARGET[has_target] if reached is None else f"{count(reached.completed)} updates",
        count(counts.attempts),
        count(counts.completed),
        count(counts.skipped),
        percent(counts.skipped / counts.attempts if counts.attempts else None),
        seconds(record.clocks.train),
        seconds(record.clocks.waste),
        seconds(record.total_seconds),
    ]


def _quality(value: float | None) -> str:
    return NOT_MEASURED if value is None else significant(value, 4)
