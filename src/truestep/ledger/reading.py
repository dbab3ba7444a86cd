"""Reads a ledger back, line by line, whatever stopped its writer."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from truestep.engine.outcome import Outcome
from truestep.errors import LedgerError
from truestep.ledger.fields import FIELDS, fault
from truestep.ledger.records import SCHEMA, Record, outcome_of

_OPENING = b'{"kind": "header", "schema": '
_LONGEST_HEADER_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 16
_INSIDE = tuple(kind for kind in FIELDS if kind != "header")


def read(path: str | os.PathLike[str]) -> Iterator[Record]:
    """The ledger's lines as dictionaries: the header first, then attempts, resumes, alarms and what became of sinks.

    They come in the order they were written. Each attempt and each alarm has one key more than its line: "waste" is true
    where a later resume went back behind it. A line counts once its line feed is written: a last line without one is
    passed over. The file is read twice, as a stream; memory does not grow with it.

    Raises:
        LedgerError: the file cannot be read, is no ledger or one of another schema, or a line inside it is broken or holds
            what cannot be in its place.
    """
    path = Path(path)
    with _open(path) as file:
        limits = _limits(file, path)
        file.seek(0)
        yield _header(file, path)
        resumes, last = 0, 0
        for number, line in enumerate(file, start=2):
            if not line.endswith(b"\n"):
                return
            record = _parsed(line, path, number)
            if record["kind"] == "resume":
                resumes, last = resumes + 1, record["attempts"]
            elif record["kind"] == "attempt":
                last = _later(record["attempt"], last, path, number)
            if "attempt" in record:
                record["waste"] = resumes < len(limits) and record["attempt"] > limits[resumes]
            yield record


def outcomes(path: str | os.PathLike[str]) -> Iterator[Outcome]:
    """The outcomes that count, as the update returned them: attempts that were rolled back are left out."""
    for record in read(path):
        if record["kind"] == "attempt" and not record["waste"]:
            yield outcome_of(record)


def read_header(path: Path) -> Record:
    """The first line, checked."""
    with _open(path) as file:
        return _header(file, path)


def whole_bytes(path: Path) -> int:
    """How many bytes of the file end in a line feed: where its torn last line, if there is one, begins.

    0 where the file is empty or holds nothing but the beginning of a header. Raises LedgerError for a file that holds
    no line feed and is no ledger either.
    """
    with _open(path) as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK_BYTES)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        file.seek(0)
        opening = file.read(len(_OPENING))
        if not _OPENING.startswith(opening):
            raise _foreign(path, "its first line is no ledger header")
        return 0


@contextlib.contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # to open one would wait for a writer
            raise _foreign(path, "it is a pipe")
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _foreign(path, "it is no regular file")
            yield file
    except OSError as error:  # no such file, no right to read, a folder, or a disk that fails
        message = f"the ledger cannot be read: {error.strerror or error}"
        raise LedgerError(message, hint="name a file that truestep.Ledger wrote", path=str(path)) from error


def _limits(file: BinaryIO, path: Path) -> list[int]:
    """For the lines before the i-th resume: the last attempt that no later resume rolled back."""
    _header(file, path)
    attempts = [
        int(_parsed(line, path, number)["attempts"])
        for number, line in enumerate(file, start=2)
        if b'"resume"' in line[:32] and line.endswith(b"\n")
    ]
    return list(accumulate(reversed(attempts), min))[::-1]


def _header(file: BinaryIO, path: Path) -> Record:
    line = file.readline(_LONGEST_HEADER_BYTES)
    if not line.endswith(b"\n"):
        if _OPENING.startswith(line[: len(_OPENING)]):
            hint = "the run ended before its first attempt; Ledger(..., resume=True) begins it afresh"
            raise LedgerError(f"{path} ends within its header", hint=hint, path=str(path))
        raise _foreign(path, "its first line is no ledger header")
    try:
        header = json.loads(line)
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or brackets without end
        raise _foreign(path, "its first line is no JSON") from error
    if not isinstance(header, dict) or header.get("kind") != "header":
        raise _foreign(path, "its first line is no ledger header")
    if header.get("schema") != SCHEMA:
        raise LedgerError(
            f"{path} is a ledger of schema {header.get('schema')}; this version reads schema {SCHEMA}",
            hint="read it with the version of truestep that its header names",
            path=str(path),
            schema=header.get("schema"),
        )
    wrong = fault(header)
    if wrong:
        raise _broken(path, 1, wrong)
    return header


def _parsed(line: bytes, path: Path, number: int) -> Record:
    try:
        record = json.loads(line.decode())  # told the encoding, json does not look for it
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or brackets without end
        raise _broken(path, number, f"is no JSON ({error})") from error
    kind = record.get("kind") if isinstance(record, dict) else None
    if kind not in _INSIDE:
        raise _broken(path, number, f"is none of {', '.join(_INSIDE)}")
    wrong = fault(record)
    if wrong:
        raise _broken(path, number, wrong)
    return record  # type: ignore[no-any-return]  # a dict: it has a kind


def _later(attempt: int, last: int, path: Path, number: int) -> int:
    """`attempt`, which must come after `last`: else two updates, or two processes, wrote one file."""
    if attempt <= last:
        raise _broken(path, number, f"holds attempt {attempt} after attempt {last} without a resume between them")
    return attempt


def _broken(path: Path, number: int, what: str) -> LedgerError:
    hint = "lines before it are whole; the file was changed after it was written, or by two writers"
    return LedgerError(f"{path}: line {number} {what}", hint=hint, path=str(path), line=number)


def _foreign(path: Path, why: str) -> LedgerError:
    return LedgerError(f"{path} is no truestep ledger: {why}", hint="name a file that truestep.Ledger wrote", path=str(path))
