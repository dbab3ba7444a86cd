"""A learner's answers in a file that only grows: a line of JSON for each, whole or, after a death, the last one torn."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from truestep.errors import FileError

SCHEMA = 1
_FIRST = b'{"schema": '
"""What each line begins with."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """An exercise that was answered."""

    name: str
    """The lab's and its own: "clip-order/right"."""
    time: datetime
    """With its distance from UTC."""
    right: bool | None
    """None for what the learner graded."""
    points: int
    total: int
    confidence: int
    """1 (a guess) to 5 (certain), as it was given before the answer was told."""
    answer: Any = None
    """As it was read."""

    @property
    def all_right(self) -> bool:
        """Nothing is missing; of what the learner graded, all points."""
        return self.points == self.total

    @property
    def sure(self) -> bool:
        """Right, and not by luck."""
        return self.all_right and self.confidence > 2


@dataclass(frozen=True, kw_only=True)
class Progress:
    """All that a file holds."""

    answered: tuple[Answered, ...] = ()
    """In the order in which they were written."""
    unread: tuple[int, ...] = ()
    """Lines, from 1, that are torn or no record."""


def home(environment: Mapping[str, str]) -> Path:
    """Where progress is kept if nobody says otherwise: `$XDG_STATE_HOME/truestep/labs.jsonl`, or below `~/.local/state`."""
    state = environment.get("XDG_STATE_HOME", "")  # what is not absolute is to be ignored, says the specification
    folder = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return folder / "truestep" / "labs.jsonl"


def read(path: Path) -> Progress:
    """What the file at `path` holds; nothing where there is none.

    Raises:
        FileError: it cannot be read, is no progress file, or is of a newer schema.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return Progress()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}", hint="name another with --progress-file") from error
    found = {number: _answered(line, path) for number, line in enumerate(lines, 1) if line.strip()}
    answered = tuple(each for each in found.values() if each is not None)
    if found and not answered and not (len(found) == 1 and _begun(lines[next(iter(found)) - 1])):
        raise FileError(f"{path} is no file of progress", hint="name another with --progress-file")
    return Progress(answered=answered, unread=tuple(number for number, each in found.items() if each is None))


def _begun(line: bytes) -> bool:
    """Whether it is the beginning of a record, and no more: a death may have torn the first line, too."""
    return not _is_json(line) and (line.startswith(_FIRST) or _FIRST.startswith(line))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def prepare(path: Path) -> Progress:
    """What is there, once it is sure that more can be written: asked before the first question.

    Raises:
        FileError: as of `read`, or nothing can be written there.
    """
    progress = read(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(_opened(path))
    except OSError as error:
        hint = "name a file that can be written with --progress-file"
        raise FileError(f"{path} cannot be written: {error.strerror}", hint=hint) from error
    return progress


def append(path: Path, answered: Answered) -> None:
    """Writes one line behind the others; it is on the disk when this returns, and a torn line before it stays alone.

    Raises:
        FileError: the disk is full, say.
    """
    record = {"schema": SCHEMA, **asdict(answered), "time": answered.time.isoformat(timespec="seconds")}
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    try:
        descriptor = _opened(path)
        try:
            left = memoryview(b"\n" + line if _torn(descriptor) else line)
            while left:  # at once, as a rule
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}", hint="this answer is not kept; make room") from error


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666)


def _torn(descriptor: int) -> bool:
    """Whether the last line has no end."""
    if os.lseek(descriptor, 0, os.SEEK_END) == 0:
        return False
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) != b"\n"


def _answered(line: bytes, path: Path) -> Answered | None:
    """The record of a line; None where it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("schema"), int):
        return None
    if record["schema"] > SCHEMA:
        hint = "update truestep, or name another with --progress-file"
        raise FileError(f"{path} was written by a newer truestep: schema {record['schema']}", hint=hint)
    try:
        fields = {name: record[name] for name in ("name", "right", "points", "total", "confidence", "answer")}
        time = datetime.fromisoformat(record["time"])
    except (KeyError, TypeError, ValueError):
        return None
    counts = [fields["points"], fields["total"], fields["confidence"]]
    whole = isinstance(fields["name"], str) and time.tzinfo is not None and all(type(each) is int for each in counts)
    return Answered(time=time, **fields) if whole and 1 <= fields["confidence"] <= 5 and fields["total"] > 0 else None
