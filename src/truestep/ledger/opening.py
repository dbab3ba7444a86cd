"""Opens a ledger's file: a new one, one to go on in, or a device or pipe as it is."""

from __future__ import annotations

import io
import os
from pathlib import Path

from truestep.errors import LedgerError
from truestep.ledger.reading import read_header, whole_bytes
from truestep.ledger.records import Record

_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # Windows has neither the flag nor pipes among its files


def opened(path: Path, *, resume: bool) -> io.FileIO:
    """`path` open for unbuffered appending, created unless it is resumed or is no regular file.

    A pipe that nobody reads is an error, as an open that does not wait has it; writing to a pipe does wait, for its reader.
    """
    special = path.exists() and not path.is_file() and not path.is_dir()
    try:
        file = io.FileIO(path, "a" if resume or special else "x", opener=_without_waiting)
        if _NO_WAIT:
            os.set_blocking(file.fileno(), True)
    except FileExistsError as error:  # of a new ledger alone
        raise LedgerError(
            f"{path} exists",
            hint="resume=True goes on in it; otherwise choose another file",
            path=str(path),
        ) from error
    except OSError as error:  # no folder, no right to write, or a pipe without a reader
        raise _unopened(path, error) from error
    return file


def resumable(path: Path, *, run_id: str | None, protocol_hash: str | None) -> Record | None:
    """The header of the ledger to go on in, with what is no whole line at its end gone; None where there is none yet."""
    if not path.exists():
        return None
    try:
        size, header = whole_bytes(path), None
        if size:
            header = read_header(path)
            _refuse_other(path, "run_id", header["run_id"], run_id)
            _refuse_other(path, "protocol_hash", header["protocol_hash"], protocol_hash)
        os.truncate(path, size)
    except OSError as error:  # no right to write, or a disk that fails
        raise _unopened(path, error) from error
    return header


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | _NO_WAIT, 0o666)


def _refuse_other(path: Path, name: str, found: str | None, asked: str | None) -> None:
    if asked is not None and found != asked:
        raise LedgerError(
            f"the ledger belongs to another run: {name} is {found}, not {asked}",
            hint="resume the run that wrote it, or write to another file",
            path=str(path),
            found=found,
            asked=asked,
        )


def _unopened(path: Path, error: OSError) -> LedgerError:
    return LedgerError(
        f"the ledger cannot be opened: {error.strerror or error}",
        hint="name a file in a folder that exists and can be written, or a pipe that is being read",
        path=str(path),
    )
