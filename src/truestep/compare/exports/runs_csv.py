"""The runs of a comparison as CSV, for spreadsheets and data frames: one row a run. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from truestep.compare.standing import Record, best_quality
from truestep.ledger.records import decoded
from truestep.run.clocks import DIALS

_TO_TARGET = ("seconds", "attempts", "completed", "examples", "tokens")
_COUNTS = ("attempts", "completed", "examples_seen", "examples_applied", "tokens_seen", "tokens_applied", "ticks")
_PROCESS = ("peak_memory_bytes", "peak_device_bytes", "startup_seconds", "wall_seconds", "exit_code", "signal")
_PLAIN = ("device", "emulated", "ledger", "data_digest", "initial_digest", "weights_digest", "protocol_hash")

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula, or strips before it looks for one."""


def runs_csv(records: Iterable[Record], *, direction: str) -> bytes:
    r"""The records as CSV after RFC 4180, in UTF-8: a header, then one row a run, lines ended by CR LF.

    An empty cell is absent. A text that a spreadsheet would take for a formula has an apostrophe before it; numbers never.

    >>> runs_csv([], direction="higher")[:27]
    b'candidate,seed,status,detai'
    """
    rows = [row(record, direction=direction) for record in records]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    writer.writerows([guarded(value) for value in one.values()] for one in rows)
    return text.getvalue().encode("utf-8", errors="replace")


def row(record: Record, *, direction: str) -> dict[str, Any]:
    """A run's cells by column; None is absent."""
    target, counts, process = record["to_target"] or {}, record["counts"], record.get("process") or {}
    cells = {name: record[name] for name in ("candidate", "seed", "status", "detail", "hint")}
    cells |= {f"to_target_{name}": target.get(name) for name in _TO_TARGET}
    cells |= {f"{dial}_seconds": record["clocks"][dial] for dial in DIALS}
    cells |= {name: record[name] for name in ("total_seconds", "cpu_seconds")}
    cells |= {name: counts[name] for name in _COUNTS}
    cells["skipped"] = sum(counts["skipped_by_reason"].values())
    cells["skipped_by_reason"] = json.dumps(counts["skipped_by_reason"])
    cells["best_validation_quality"] = best_quality(record, direction)
    cells["test_quality"] = decoded(record["test_quality"])
    cells |= {name: process.get(name) for name in _PROCESS}
    return cells | {name: record[name] for name in _PLAIN}


COLUMNS = (
    *("candidate", "seed", "status", "detail", "hint"),
    *(f"to_target_{name}" for name in _TO_TARGET),
    *(f"{dial}_seconds" for dial in DIALS),
    *("total_seconds", "cpu_seconds"),
    *_COUNTS,
    *("skipped", "skipped_by_reason", "best_validation_quality", "test_quality"),
    *_PROCESS,
    *_PLAIN,
)
"""The header, in the order of `row`."""


def guarded(value: Any) -> Any:
    """`value` as a cell: text that no spreadsheet computes, and numbers as they are.

    >>> [guarded(value) for value in ("=1+1", "fp16 clip=1", -1.5, None, True)]
    ["'=1+1", 'fp16 clip=1', -1.5, None, True]
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
