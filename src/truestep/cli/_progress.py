"""What `truestep labs --progress` prints: each lab's mark, each topic's counts, and where confidence and correctness part."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from truestep.cli._asking import say_unread
from truestep.cli._output import print_json, print_table
from truestep.labs.asking import progress
from truestep.labs.asking.calibration import Level, levels, partings
from truestep.labs.asking.review import Standing, Why, due, standings
from truestep.labs.asking.sheet import exercises
from truestep.labs.lab import TOPICS, Lab
from truestep.pages.words import percent


@dataclass(frozen=True, kw_only=True)
class Row:
    """How a lab, or a topic, stands: exercises there are, answered ever, right the last time, due now."""

    name: str
    exercises: int
    answered: int
    right: int
    due: int

    @property
    def mark(self) -> str:
        """In a word or two."""
        if not self.answered:
            return "-"
        if self.due:
            return f"due {self.due}"
        return "done" if self.right == self.exercises else f"{self.right} of {self.exercises}"

    def cells(self) -> list[str]:
        """For a table."""
        return [self.name, *map(str, (self.exercises, self.answered, self.right, self.due))]

    def record(self) -> dict[str, int]:
        """For JSON."""
        return {"exercises": self.exercises, "answered": self.answered, "right": self.right, "due": self.due}


def print_progress(path: Path, labs: tuple[Lab, ...], *, json: bool) -> None:
    """Reads the file of progress and prints how its learner stands with these labs."""
    known, asked = progress.read(path), exercises(labs)
    say_unread(known, path)
    gone = sorted({each.name for each in known.answered} - set(asked))
    if gone and len(labs) > 1:
        print(f"answered, and asked no more: {', '.join(gone)}", file=sys.stderr)
    answers = [each for each in known.answered if each.name in asked]
    stand, waiting = standings(answers), due(answers, datetime.now().astimezone())
    rows = [_row(lab, stand, waiting) for lab in labs]
    (_json if json else _tables)(labs, rows, waiting, levels(answers))


def _row(lab: Lab, stand: Mapping[str, Standing], waiting: Mapping[str, Why]) -> Row:
    names = [f"{lab.name}/{ask.key}" for ask in lab.asks]
    there = [name for name in names if name in stand]
    return Row(
        name=lab.name,
        exercises=len(names),
        answered=len(there),
        right=sum(stand[name].last.all_right for name in there),
        due=sum(name in waiting for name in there),
    )


def _json(labs: Sequence[Lab], rows: Sequence[Row], waiting: Mapping[str, Why], found: Sequence[Level]) -> None:
    by_lab = {lab.name: {"topic": lab.topic, "mark": row.mark, **row.record()} for lab, row in zip(labs, rows, strict=True)}
    by_confidence = [
        {"confidence": each.confidence, "answers": each.asked, "right": each.right, "share": each.share, "wilson_95": _ends(each)}
        for each in found
    ]
    words = list(partings(found))
    print_json({"schema": 1, "labs": by_lab, "due": dict(waiting), "by_confidence": by_confidence, "words": words})


def _tables(labs: Sequence[Lab], rows: Sequence[Row], waiting: Mapping[str, Why], found: Sequence[Level]) -> None:
    marked = [[lab.name, lab.title, row.mark] for lab, row in zip(labs, rows, strict=True)]
    print_table("Labs", ["lab", "fact", "mark"], marked, words=3)
    print()
    topics = []
    for topic, title in TOPICS.items():
        of = [row for lab, row in zip(labs, rows, strict=True) if lab.topic == topic]
        counts = {name: sum(row.record()[name] for row in of) for name in ("exercises", "answered", "right", "due")}
        if of:
            topics.append(Row(name=title, **counts).cells())
    print_table("By topic; right: the last time", ["topic", "exercises", "answered", "right", "due"], topics)
    if waiting:
        print()
        print_table("Due", ["exercise", "because it was"], waiting.items(), words=2)
    print()
    levels_ = [[str(each.confidence), str(each.asked), str(each.right), _share(each.share), _interval(each)] for each in found]
    print_table("All answers by confidence", ["confidence", "answers", "right", "share", "95 % interval"], levels_)
    print("\n".join(partings(found)))


def _ends(level: Level) -> list[float] | None:
    interval = level.interval()
    return None if interval is None else [interval.low, interval.high]


def _interval(level: Level) -> str:
    return " to ".join(map(_share, _ends(level) or [])) or "-"


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share, 2)
