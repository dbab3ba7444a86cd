"""A comparison's folder: proved writable before any work, its records appended one by one, refused where it holds another."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truestep.compare.candidate import Candidate
from truestep.compare.death import may_be_made_again
from truestep.compare.kept import PROTOCOL, RECORDS, read_protocol, read_records
from truestep.compare.order import Slot
from truestep.compare.protocol import Protocol, first_difference
from truestep.compare.verdict import Summary, demand_records
from truestep.disk import atomic
from truestep.disk.hold import Hold, held
from truestep.errors import RecordError
from truestep.pages.words import counted

SUMMARY, LEDGERS, LOGS = "summary.json", "ledgers", "logs"


@dataclass(kw_only=True)
class Folder:
    """A comparison on disk. Build one with `opened`."""

    path: Path
    protocol: Protocol
    records: list[dict[str, Any]] = field(default_factory=list)
    """The finished runs, those of this process included."""
    hold: Hold | None = None
    """Keeps other processes out; None where the system has no such locks, and for a folder that is only read."""

    @staticmethod
    def opened(path: Path, protocol: Protocol, *, resume: bool) -> Folder:
        """The folder at `path`, ready to take the runs of `protocol`; made where there is none.

        protocol.json is on disk when this returns, and a record that an earlier process left unfinished is cut off.

        Raises:
            RecordError: the folder cannot be written, or it holds records of another protocol, records without `resume`,
                or something that is no record.
        """
        _prove_writable(path)
        hold = _held(path)
        there = read_protocol(path)
        if there is not None and there.hash != protocol.hash:
            raise _another(path, there, protocol)
        records = read_records(path)
        if records and not resume:
            raise _already(path, protocol, records)
        if there is None and records:
            raise RecordError(f"{path} holds records without a {PROTOCOL}", hint="give another --out", path=str(path))
        demand_records(protocol, records)
        folder = Folder(path=path, protocol=protocol, records=records, hold=hold)
        folder._sweep()
        folder._write(PROTOCOL, protocol.canonical())
        folder._cut_torn_record()
        return folder

    def ledger(self, slot: Slot) -> Path:
        """Where the ledger of a run that has no record yet goes, or that of the next try of one that has."""
        return self.path / LEDGERS / f"{self._stem(slot)}.jsonl"

    def log(self, slot: Slot) -> Path:
        """Where its output goes."""
        return self.path / LOGS / f"{self._stem(slot)}.txt"

    def drop_empty_logs(self) -> None:
        """Remove the logs of runs that said nothing."""
        with suppress(OSError):
            for log in (self.path / LOGS).glob("*.txt"):
                if not log.stat().st_size:
                    log.unlink()
            (self.path / LOGS).rmdir()

    def set_aside(self, slot: Slot) -> None:
        """Make room for a run's ledger and log: those of a try that was interrupted are kept under other names.

        A try that came to a record keeps its own: the next has a number in its name.
        """
        for path in (self.ledger(slot), self.log(slot)):
            with self._errors(f"making room in {path.parent}"):
                path.parent.mkdir(exist_ok=True)
                if path.exists():
                    earlier = len(list(path.parent.glob(f"{path.stem}.interrupted-*{path.suffix}")))
                    path.rename(path.with_name(f"{path.stem}.interrupted-{earlier + 1}{path.suffix}"))

    def interrupted(self) -> list[str]:
        """The ledgers of runs that were interrupted and run again, by their names."""
        return sorted(path.name for path in (self.path / LEDGERS).glob("*.interrupted-*.jsonl"))

    def record_of(self, slot: Slot) -> dict[str, Any] | None:
        """The record of a run; None where it has not ended."""
        return next((each for each in self.records if (each["candidate"], each["seed"]) == (slot.candidate, slot.seed)), None)

    def put(self, slot: Slot, record: Mapping[str, Any]) -> None:
        """Append the record of a run, or put it in place of its earlier one, in one write."""
        earlier = self.record_of(slot)
        if earlier is None:
            self.append(record)
            return
        records = [dict(record) if each is earlier else each for each in self.records]
        self._write(RECORDS, b"".join(map(_line, records)))
        self.records[:] = records

    def append(self, record: Mapping[str, Any]) -> None:
        """Put a finished run's record on disk, flushed and synced, before anything else happens."""
        with self._errors(f"writing {self.path / RECORDS}"), open(self.path / RECORDS, "ab") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())
        self.records.append(dict(record))

    def _stem(self, slot: Slot) -> str:
        """The name of a run's files, its kind aside."""
        stem, earlier = f"{Candidate.parse(slot.candidate).slug}-seed{slot.seed}", self.record_of(slot)
        return stem if earlier is None else f"{stem}.try-{len(earlier['process']['earlier']) + 2}"

    def write_summary(self, summary: Summary) -> None:
        """Put the summary on disk, in place of an earlier one."""
        self._write(SUMMARY, json.dumps(summary.as_dict(), allow_nan=False, indent=1).encode("ascii") + b"\n")

    def _write(self, name: str, content: bytes) -> None:
        with self._errors(f"writing {self.path / name}"):
            atomic.write(self.path / name, content)

    def _sweep(self) -> None:
        """Remove what killed processes left of files that they had not finished."""
        with self._errors(f"mending {self.path}"):
            for name in (PROTOCOL, SUMMARY, RECORDS):
                atomic.sweep(self.path, name)

    def _cut_torn_record(self) -> None:
        """Take off what follows the last newline, so that the next record begins a line of its own."""
        path = self.path / RECORDS
        if path.exists():
            with self._errors(f"mending {path}"):
                os.truncate(path, path.read_bytes().rfind(b"\n") + 1)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """An OSError as a RecordError that says what is kept."""
        try:
            yield
        except OSError as error:
            kept = len(self.records)
            hint = f"{counted(kept, 'finished run')} kept; once this is mended, the same command with --resume goes on"
            reason = error.strerror or str(error)
            raise RecordError(f"{doing}: {reason}", hint=hint, path=str(self.path), kept=kept) from error


def _prove_writable(path: Path) -> None:
    """RecordError unless a file can be made, filled and removed in `path`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        atomic.prove_writable(path / PROTOCOL)
    except OSError as error:
        hint = "give a folder that can be written: --out DIR; nothing was run"
        raise RecordError(f"{path} cannot be written: {error.strerror or error}", hint=hint, path=str(path)) from error


def _held(path: Path) -> Hold | None:
    """The hold on `path`; RecordError where another process has it."""
    try:
        return held(path)
    except BlockingIOError as error:
        message = f"another process is comparing in {path}"
        raise RecordError(message, hint="wait for it to end, or give another --out", path=str(path)) from error


def _already(path: Path, protocol: Protocol, records: Sequence[Mapping[str, Any]]) -> RecordError:
    """That runs are there, with what leads on from there: where none is missing, --resume alone would do nothing new."""
    planned = len(protocol.candidates) * len(protocol.seeds)
    failed = sum(may_be_made_again(record, budget_seconds=protocol.budget_seconds) for record in records)
    if len(records) < planned:
        ways = ["--resume goes on with what is missing"]
    elif protocol.target is None:  # a pilot's: no report is made of it
        ways = ["no run of the pilot is missing: --resume goes on to the comparison"]
    else:
        ways = [f"no run is missing: truestep report {shlex.quote(str(path))} makes its report again"]
    if failed:
        ways.append(f"--resume --rerun-failed makes {counted(failed, 'failed run')} again")
    message = (
        f"{path} holds this {'pilot' if protocol.target is None else 'comparison'} already, {len(records)} of {planned} runs"
    )
    return RecordError(message, hint="; ".join([*ways, "another --out begins anew"]), path=str(path))


def _another(path: Path, there: Protocol, asked: Protocol) -> RecordError:
    difference = first_difference(there, asked)
    assert difference is not None, "protocols of different hashes differ in a field"
    name, old, new = difference
    why = _REASONS.get(name, "ask for what it holds")
    return RecordError(
        f"{path} holds a comparison under another protocol; the first difference is {name}",
        hint=f"{why}, or begin anew with another --out; nothing was run",
        path=str(path),
        there=there.hash,
        asked=asked.hash,
        field=name,
        there_value=_short(old),
        asked_value=_short(new),
    )


_REASONS = {
    "pilot": "it was begun with other words about a pilot: ask for the same --pilot and --slack",
    "seeds": "the seeds are declared before the first run and cannot be added later: ask for those that it holds",
    "code_digest": "the task's code has changed since, and runs of both cannot be compared: restore it",
    "data_digest": "the task's data are others now, and runs on both cannot be compared: restore them",
}
"""What to do about a field of which that is not plain."""


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, allow_nan=False).encode("ascii") + b"\n"
