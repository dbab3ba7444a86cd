"""The files of a comparison read back: strict JSON and JSON lines, with errors that name the file and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from truestep.errors import RecordError


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`.

    Raises:
        RecordError: no such file, one that cannot be read, or one that holds something else.
    """
    value = _parsed(_bytes(path), path, line=None)
    if not isinstance(value, dict):
        raise RecordError(f"{path} holds no JSON object", hint=f"restore {path.name}", path=str(path))
    return value


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of `path`, one a line; what follows the last line feed, unfinished, is passed over.

    Raises:
        RecordError: no such file, one that cannot be read, or a line that holds something else; it names the line.
    """
    whole, _, _torn = _bytes(path).rpartition(b"\n")
    for number, line in enumerate(whole.split(b"\n"), start=1):
        if line.strip():
            value = _parsed(line, path, line=number)
            if not isinstance(value, dict):
                message = f"{path}, line {number}, holds no JSON object"
                raise RecordError(message, hint=f"restore {path.name}", path=str(path), line=number)
            yield value


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        hint = "a comparison's folder holds protocol.json, records.jsonl and summary.json; is this one?"
        raise RecordError(f"there is no {path}", hint=hint, path=str(path)) from error
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        raise RecordError(message, hint="let the file be read", path=str(path)) from error


def _parsed(data: bytes, path: Path, *, line: int | None) -> Any:
    place = str(path) if line is None else f"{path}, line {line},"
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        hint = f"restore {path.name}"
        raise RecordError(f"{place} is no strict JSON: {error}", hint=hint, path=str(path), line=line) from error


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
