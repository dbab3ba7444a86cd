"""Writes a run's outcomes to a file as they happen, one JSON line an attempt."""

from __future__ import annotations

import contextlib
import io
import json
import os
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from truestep.engine.outcome import Outcome
from truestep.errors import LedgerError
from truestep.ledger import environment as surroundings
from truestep.ledger.reading import read_header, whole_bytes
from truestep.ledger.records import Record, attempt_record, header_record, resume_record


class Ledger:
    """An append-only file of outcomes: a header, then a line for each attempt. One ledger belongs to one update.

    Each line goes to the operating system before `record` returns, in one unbuffered write: it survives the death of
    the process (kill -9 included), not that of the machine. It costs some tens of microseconds an attempt.

    Args:
        path: A new file. An existing one is refused unless `resume`. A device or pipe is written to as it is.
        policy: The policy's name for the header; each attempt names its own anyway.
        protocol_hash: The comparison that this run belongs to; None for a run of its own.
        run_id: A name for the run; None draws one.
        resume: Go on in an existing ledger (a torn last line is cut off), or begin a new one where there is none. With
            the first outcome the attempt number tells where the run went on; lines beyond it stay, as waste.
        environment: What the header says of the machine; None reads it.

    Raises:
        LedgerError: the file exists, is no ledger, belongs to another run or protocol, or cannot be written.

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
    ) -> None:
        self.path = Path(path)
        self._environment = surroundings.environment() if environment is None else environment
        self._last_attempt = 0
        self._written = 0
        self._resuming = resume and self._cut_to_whole_lines(run_id=run_id, protocol_hash=protocol_hash)
        self._file: io.FileIO | None = _opened(self.path, resume=resume)
        if not self._resuming:
            header = header_record(
                run_id=run_id or uuid.uuid4().hex,
                created=_now(),
                environment=self._environment,
                policy=policy,
                protocol_hash=protocol_hash,
            )
            self._append(header)

    def record(self, outcome: Outcome) -> None:
        """Append `outcome`'s line.

        Raises:
            LedgerError: the ledger is closed; the outcome is not a later attempt than the last one; or the file cannot
                be written, in which case what was written before stays readable and the ledger is closed.
        """
        attempt = outcome.counts.attempts
        if self._resuming:
            resumed = resume_record(attempts=attempt - 1, created=_now(), environment=self._environment)
            self._append(resumed)
            self._resuming = False
        elif attempt <= self._last_attempt:
            raise LedgerError(
                f"attempt {attempt} comes after attempt {self._last_attempt}",
                hint="give each update a ledger of its own; open with resume=True after going back to a checkpoint",
                path=str(self.path),
                attempt=attempt,
                last_attempt=self._last_attempt,
            )
        self._append(attempt_record(outcome))
        self._last_attempt = attempt
        self._written += 1

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        """The ledger itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the file."""
        self.close()

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
            return json.dumps(record, allow_nan=False).encode() + b"\n"
        except (TypeError, ValueError) as error:  # only the caller's environment can hold what JSON cannot
            self.close()
            message = f"the ledger's environment cannot be written as JSON: {error}"
            raise LedgerError(message, hint="give plain values", path=str(self.path)) from error

    def _abandon(self, whole: int, error: OSError) -> NoReturn:
        self._cut(whole)
        self.close()
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

    def _cut_to_whole_lines(self, *, run_id: str | None, protocol_hash: str | None) -> bool:
        """Whether there is a ledger to go on in; what is no whole line at its end is gone then."""
        if not self.path.exists():
            return False
        try:
            size = whole_bytes(self.path)
            if size:
                header = read_header(self.path)
                self._refuse_other("run_id", header["run_id"], run_id)
                self._refuse_other("protocol_hash", header["protocol_hash"], protocol_hash)
            os.truncate(self.path, size)
        except OSError as error:
            raise _unopened(self.path, error) from error
        return size > 0

    def _refuse_other(self, name: str, found: str | None, asked: str | None) -> None:
        if asked is not None and found != asked:
            raise LedgerError(
                f"the ledger belongs to another run: {name} is {found}, not {asked}",
                hint="resume the run that wrote it, or write to another file",
                path=str(self.path),
                found=found,
                asked=asked,
            )


def _opened(path: Path, *, resume: bool) -> io.FileIO:
    """`path` open for unbuffered appending, created unless it is resumed or is no regular file."""
    special = path.exists() and not path.is_file() and not path.is_dir()
    try:
        return io.FileIO(path, "a" if resume or special else "x")
    except FileExistsError as error:
        raise LedgerError(
            f"{path} exists",
            hint="resume=True goes on in it; otherwise choose another file",
            path=str(path),
        ) from error
    except OSError as error:
        raise _unopened(path, error) from error


def _unopened(path: Path, error: OSError) -> LedgerError:
    return LedgerError(
        f"the ledger cannot be opened: {error.strerror or error}",
        hint="name a file in a folder that exists and can be written",
        path=str(path),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
