"""A comparison's folder as one value: protocol, records, summary and attempts, refused where they do not belong together."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truestep.errors import RecordError
from truestep.pages.comparison.attempts import Attempts, read_attempts
from truestep.pages.comparison.clocks import Record
from truestep.pages.comparison.files import read_lines, read_object
from truestep.pages.look.candidates import Look, looks


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """What the folder holds, as its files say it."""

    protocol: Mapping[str, Any]
    hash: str
    records: tuple[Record, ...]
    summary: Mapping[str, Any]
    attempts: tuple[Attempts, ...]
    without_ledger: tuple[str, ...]
    """The runs whose ledger is not in the folder, in words."""

    @property
    def candidates(self) -> tuple[str, ...]:
        """The candidates, the baseline first."""
        return tuple(self.protocol["candidates"])

    @property
    def baseline(self) -> str:
        """The candidate that the others are held against."""
        return self.candidates[0]

    @property
    def drawn(self) -> dict[str, Look]:
        """Each candidate's look."""
        return looks(self.candidates)

    @property
    def emulated(self) -> frozenset[str]:
        """The candidates whose format the device emulates, so that their seconds say nothing about one that has it."""
        return frozenset(record["candidate"] for record in self.records if record["emulated"])

    @property
    def labels(self) -> dict[str, str]:
        """Each candidate's name for a figure that shows seconds: an emulated one is labelled."""
        return {name: f"{name} (emulated)" if name in self.emulated else name for name in self.candidates}


def read(out: Path, summary: Mapping[str, Any] | None = None) -> Comparison:
    """Read the folder `out`.

    Args:
        summary: What stands in for summary.json. It is of so many runs: a comparison under way may have come to more since,
            and its later records are left out.

    Raises:
        RecordError: a file is missing or is no strict JSON, a record, a ledger or the summary belongs to another protocol,
            or a record names a candidate that the protocol does not.
    """
    protocol = read_object(out / "protocol.json")
    given, summary = summary is not None, summary or read_object(out / "summary.json")
    digest = protocol_hash(protocol)
    unborn = summary.get("runs") == 0 and not (out / "records.jsonl").exists()  # stopped before its first run ended
    records = () if unborn else tuple(read_lines(out / "records.jsonl"))
    records = records[: summary["runs"]] if given else records
    for number, record in enumerate(records, start=1):
        _demand_hash(record.get("protocol_hash"), digest, f"{out / 'records.jsonl'}, record {number}")
        if record["candidate"] not in protocol["candidates"]:
            message = f"{out / 'records.jsonl'}, record {number}, is of {record['candidate']!r}, no candidate here"
            raise RecordError(message, hint="restore the folder's files", candidate=record["candidate"])
    _demand_hash(summary.get("protocol_hash"), digest, str(out / "summary.json"))
    if summary["runs"] != len(records):
        message = f"{out / 'summary.json'} is of {summary['runs']} runs, and records.jsonl holds {len(records)}"
        hint = f"truestep report {shlex.quote(str(out))} summarizes the records again"
        raise RecordError(message, hint=hint, runs=summary["runs"], records=len(records))
    attempts, without = _ledgers(out, records, digest)
    return Comparison(
        protocol=protocol,
        hash=digest,
        records=records,
        summary=summary,
        attempts=attempts,
        without_ledger=without,
    )


def _ledgers(out: Path, records: Iterable[Record], digest: str) -> tuple[tuple[Attempts, ...], tuple[str, ...]]:
    """The attempts of the runs whose ledger is in the folder, each held to the protocol by its header, and the others by name."""
    attempts, without = [], []
    for record in records:
        name, seed = record["candidate"], record["seed"]
        path = None if record["ledger"] is None else out / record["ledger"]
        if path is None or not path.is_file():
            without.append(f"{name}, seed {seed}")
        else:
            lines = read_lines(path)
            header = next(lines, {"protocol_hash": digest})  # a process may die before its first line
            _demand_hash(header.get("protocol_hash"), digest, str(path))
            attempts.append(read_attempts(lines, candidate=name, seed=seed))
    return tuple(attempts), tuple(without)


def protocol_hash(protocol: Mapping[str, Any]) -> str:
    """SHA-256 of the protocol's canonical form: ASCII JSON, keys sorted, no spaces.

    >>> protocol_hash({"b": 1, "a": 2.0})[:12]
    '594a76bcdcf0'
    """
    canonical = json.dumps(protocol, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _demand_hash(found: object, declared: str, place: str) -> None:
    if found != declared:
        raise RecordError(
            f"{place} belongs to protocol {str(found)[:12]}, not to {declared[:12]} of protocol.json",
            hint="keep each comparison in a folder of its own; nothing was drawn",
            place=place,
            found=str(found),
            declared=declared,
        )
