"""A comparison's records for other programs: runs.csv, summary.md, and MLLOG-style lines with the rules that they keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from truestep.compare.candidate import Candidate
from truestep.compare.exports.markdown import markdown
from truestep.compare.exports.mllog import log
from truestep.compare.exports.runs_csv import runs_csv
from truestep.compare.protocol import Protocol
from truestep.compare.standing import Record
from truestep.compare.verdict import Summary
from truestep.disk import atomic
from truestep.errors import FileError, LedgerError
from truestep.ledger import read

CSV, MARKDOWN, MLLOG, RULES = "runs.csv", "summary.md", "mllog", "rules.yaml"


def export(out: Path, protocol: Protocol, records: Sequence[Record], summary: Summary) -> tuple[Path, ...]:
    """Write the exports of a comparison into its folder `out`, in place of earlier ones; returns their paths.

    runs.csv has one row a run; summary.md is the tables, to paste; mllog/ has a file a run, and rules.yaml, which
    mlperf-logging's compliance checker takes as its `--config`. Nothing here is an MLPerf result.

    Raises:
        FileError: one cannot be written; the earlier one is as it was.
    """
    written = []
    for name, content in _contents(out, protocol, records, summary):
        path = out / name
        try:
            path.parent.mkdir(exist_ok=True)
            atomic.write(path, content)
        except OSError as error:
            reason = error.strerror or str(error)
            hint = "make room, or let the folder be written to; the comparison's records are as they were"
            raise FileError(f"cannot write {path}: {reason}", hint=hint, path=str(path), reason=reason) from error
        written.append(path)
    return tuple(written)


def _contents(out: Path, protocol: Protocol, records: Sequence[Record], summary: Summary) -> Iterator[tuple[str, bytes]]:
    """Each file's name below `out`, and what it holds."""
    yield CSV, runs_csv(records, direction=protocol.direction)
    yield MARKDOWN, markdown(protocol, summary).encode("utf-8", errors="replace")
    yield f"{MLLOG}/{RULES}", files(__name__).joinpath(RULES).read_bytes()
    for record in records:
        name = f"{Candidate.parse(record['candidate']).slug}-seed{record['seed']}.log"
        yield f"{MLLOG}/{name}", log(protocol, record, begun=_begun(out, record)).encode("ascii")


def _begun(out: Path, record: Record) -> str | None:
    """When the run's ledger was begun, as its header says; None where there is none to be read."""
    if record["ledger"] is not None and (out / record["ledger"]).is_file():
        with suppress(LedgerError, StopIteration):  # the report's page is what refuses a spoilt ledger
            created: str = next(read(out / record["ledger"]))["created"]
            return created
    return None
