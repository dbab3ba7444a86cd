"""Writes a run's outcomes to a file as they happen, one JSON line an attempt."""

from __future__ import annotations

import contextlib
import io
import json
import os
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from truestep.engine.outcome import Outcome
from truestep.errors import LedgerError
from truestep.ledger import environment as surroundings
from truestep.ledger.alarm import Alert, SkipAlarm
from truestep.ledger.fanout import Fanout
from truestep.ledger.opening import opened, resumable
from truestep.ledger.records import Record, alarm_record, attempt_record, header_record, resume_record
from truestep.ledger.sinks import Sink

_ENCODER = json.JSONEncoder(allow_nan=False)


class Ledger:
    """An append-only file of outcomes: a header, then a line for each attempt. One ledger belongs to one update.

    Each line goes to the operating system before `record` returns, in one unbuffered write: it survives the death of
    the process (kill -9 included), not that of the machine. It costs about 20 microseconds and 800 bytes an attempt,
    and no memory that grows (benchmarks/ledger_cost.py).

    Args:
        path: A new file. An existing one is refused unless `resume`. A device, or a pipe that someone reads, is written
            to as it is.
        policy: The policy's name for the header; each attempt names its own anyway.
        protocol_hash: The comparison that this run belongs to; None for a run of its own.
        run_id: A name for the run; None draws one.
        resume: Go on in an existing ledger (a torn last line is cut off), or begin a new one where there is none. With
            the first outcome the attempt number tells where the run went on; lines beyond it stay, as waste.
        environment: What the header says of the machine; None reads it.
        sinks: Trackers that are shown each attempt once its line is in the file: see `truestep.sinks`. One that fails is
            dropped with a RuntimeWarning and a line.
        alarm: Is called with each outcome; an alert becomes a line and a RuntimeWarning.

    Raises:
        LedgerError: the file exists, is no ledger, belongs to another run or protocol, or cannot be written; or a sink
            does not open.
        UsageError: a sink's package is not installed.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, Ledger(f"{folder}/run.jsonl", run_id="demo") as ledger:
        ...     json.loads(ledger.path.read_text())["run_id"]
        'demo'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        policy: str | None = None,
        protocol_hash: str | None = None,
        run_id: str | None = None,
        resume: bool = False,
        environment: Mapping[str, Any] | None = None,
        sinks: Sequence[Sink] = (),
        alarm: SkipAlarm | None = None,
    ) -> None:
        self.path = Path(path)
        self._environment = surroundings.environment() if environment is None else environment
        self._last_attempt = 0
        self._written = 0
        self._alarm = alarm
        began = not self.path.exists()
        found = resumable(self.path, run_id=run_id, protocol_hash=protocol_hash) if resume else None
        self._resuming = found is not None
        self._file: io.FileIO | None = opened(self.path, resume=resume)
        header = found or header_record(
            run_id=run_id or uuid.uuid4().hex,
            created=_now(),
            environment=self._environment,
            policy=policy,
            protocol_hash=protocol_hash,
        )
        if found is None:
            self._append(header)
        try:
            self._sinks = Fanout(sinks, header)
        except BaseException:  # Ctrl-C while a tracker connects, too: the next try is to find the path as this one did
            self._release()
            if began:
                self.path.unlink()
            raise

    def record(self, outcome: Outcome) -> Alert | None:
        """Append `outcome`'s line; the alert, where this outcome made the alarm sound.

        Raises:
            LedgerError: the ledger is closed; the outcome is not a later attempt than the last one; or the file cannot
                be written, in which case what was written before stays readable and the ledger is closed.
        """
        attempt = outcome.counts.attempts
        if self._resuming:
            self._keep(self._gone_on_after(attempt - 1))
        elif attempt <= self._last_attempt:
            raise LedgerError(
                f"attempt {attempt} comes after attempt {self._last_attempt}",
                hint="give each update a ledger of its own; open with resume=True after going back to a checkpoint",
                path=str(self.path),
                attempt=attempt,
                last_attempt=self._last_attempt,
            )
        line = attempt_record(outcome)
        self._append(line)
        self._last_attempt = attempt
        self._written += 1
        self._keep(self._sinks.attempt(line))
        alert = self._alarm(outcome) if self._alarm is not None else None
        if alert is not None:
            self._append(alarm_record(alert))
            warnings.warn(str(alert), RuntimeWarning, stacklevel=2)
        return alert

    def go_on_after(self, attempts: int) -> None:
        """Say at once that a resumed run goes on after so many attempts: lines beyond are waste, also if no attempt follows.

        Without it the first outcome says so. Nothing is written in a ledger that goes on in none, or has been told already.
        """
        if self._resuming:
            self._keep(self._gone_on_after(attempts))

    def close(self) -> None:
        """Close the sinks and the file; closing twice is harmless."""
        try:
            self._keep(self._sinks.close())
        finally:
            self._release()

    def __enter__(self) -> Self:
        """The ledger itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the file."""
        self.close()

    def _gone_on_after(self, attempts: int) -> Iterable[Record]:
        self._append(resume_record(attempts=attempts, created=_now(), environment=self._environment))
        self._resuming, self._last_attempt = False, attempts
        return self._sinks.resume(attempts)

    def _keep(self, lines: Iterable[Record]) -> None:
        """Write what became of sinks, and say so where one failed: in this order, as a warning may be made an error."""
        lines = list(lines)
        for line in lines:
            if self._file is not None:
                self._append(line)
        for line in lines:
            if line["error"] is not None:
                message = f"the sink {line['sink']} failed and was dropped after {line['attempts']} attempts: {line['error']}"
                warnings.warn(message, RuntimeWarning, stacklevel=3)

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, record: Record) -> None:
        """One whole line, or none: what a failed write left of it is cut off again."""
        if self._file is None:
            raise LedgerError("the ledger is closed", hint="record inside the `with` block", path=str(self.path))
        line = self._line(record)
        whole = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            self._abandon(whole, error)
        except BaseException:  # Ctrl-C between two partial writes
            self._cut(whole)
            raise

    def _line(self, record: Record) -> bytes:
        try:
            return _ENCODER.encode(record).encode() + b"\n"
        except (TypeError, ValueError) as error:  # only the caller's environment can hold what JSON cannot
            self._release()
            message = f"the ledger's environment cannot be written as JSON: {error}"
            raise LedgerError(message, hint="give plain values", path=str(self.path)) from error

    def _abandon(self, whole: int, error: OSError) -> NoReturn:
        self._cut(whole)
        self._release()
        raise LedgerError(
            f"the ledger cannot be written: {error.strerror or error}",
            hint=f"the {self._written} attempts recorded so far stay readable; make room and go on with resume=True",
            path=str(self.path),
            kept_attempts=self._written,
        ) from error

    def _cut(self, whole: int) -> None:
        """Best effort: a reader and a resume cope with the torn line that stays where this fails."""
        assert self._file is not None
        with contextlib.suppress(OSError):
            self._file.truncate(whole)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
