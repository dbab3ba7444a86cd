"""Reads what a comparison's folder keeps: its protocol and its records, each refused where it is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truestep.compare.protocol import Protocol
from truestep.disk.canonical import parsed
from truestep.errors import RecordError
from truestep.run import RunRecord

PROTOCOL, RECORDS = "protocol.json", "records.jsonl"


def read_protocol(path: Path) -> Protocol | None:
    """The protocol of the folder at `path`; None where it has none.

    Raises:
        RecordError: the file cannot be read, or it is no protocol.
    """
    content = _content(path / PROTOCOL)
    return None if content is None else Protocol.from_dict(_parsed(content, str(path / PROTOCOL)))


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of the folder at `path`, in the order of writing; none where there is no file.

    A record counts once its newline is on disk: what a killed process left after the last one is passed over.

    Raises:
        RecordError: the file cannot be read, or a line holds no record; the line is named.
    """
    lines = (_content(path / RECORDS) or b"").split(b"\n")[:-1]
    return [_record(line, f"{path / RECORDS}, line {number},") for number, line in enumerate(lines, start=1)]


def _content(path: Path) -> bytes | None:
    """The bytes of `path`; None where there is none."""
    if not path.exists() and not path.is_symlink():
        return None
    if not path.is_file():  # a device would be read for ever
        raise RecordError(f"{path} is no regular file", hint="give another --out", path=str(path))
    try:
        return path.read_bytes()
    except OSError as error:
        hint = "let it be read, or give another --out"
        raise RecordError(f"{path} cannot be read: {error.strerror or error}", hint=hint, path=str(path)) from error


def _record(line: bytes, place: str) -> dict[str, Any]:
    record = _parsed(line, place)
    try:
        RunRecord.from_dict({name: value for name, value in record.items() if name != "process"})
    except RecordError as error:  # it knows neither file nor line
        raise RecordError(f"{place} holds {error.summary}", hint=error.hint) from error
    return record


def _parsed(content: bytes, place: str) -> dict[str, Any]:
    try:
        value = parsed(content)
    except ValueError as error:
        raise RecordError(f"{place} is no JSON: {error}", hint="restore the file, or give another --out") from error
    if not isinstance(value, dict):
        raise RecordError(f"{place} holds no JSON object", hint="restore the file, or give another --out")
    return value
