"""What a run leaves: one value that says how it ended, what it did, and where its seconds went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from truestep.engine.counts import Counts
from truestep.errors import RecordError
from truestep.ledger.records import counts_of, counts_record, decoded, encoded
from truestep.run.clocks import Clocks

SCHEMA = 1
"""Moves when a field's meaning moves; a reader refuses every other number."""

Status = Literal["reached", "budget", "diverged", "stalled", "out of memory", "error", "stopped", "crashed", "timed out"]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The validation quality at one place of the evaluation schedule."""

    examples: int
    """Examples seen: the place in the data."""
    completed: int
    quality: float
    train_seconds: float
    """Seconds of the train clock so far."""


@dataclass(frozen=True, kw_only=True)
class ToTarget:
    """What it took to the first evaluation that met the target."""

    seconds: float
    """Of the primary clock."""
    attempts: int
    completed: int
    examples: int
    """Examples seen."""
    tokens: int | None
    """Tokens seen; None where they are not counted."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One run of a task from beginning to end. Every run that started has one, failed ones included."""

    candidate: str
    seed: int
    status: Status
    """"reached" the target; used up its "budget"; "diverged": weights, quality or a loss in float32 that are not finite;
    "stalled": too many attempts skipped in a row; "out of memory"; "error" in the task's code; "stopped" by the caller;
    "crashed", where the run's own process died, and "timed out", where that was ended."""
    detail: str | None
    """What failed and where, in words. For a run that reached its target or used its budget: where memory ran out and how the
    run went on; None where it did not."""
    hint: str | None
    """What to do about it, where truestep itself refused something or memory did not suffice for an attempt; None otherwise."""
    counts: Counts
    clocks: Clocks
    total_seconds: float
    """Wall time from the first to the last moment that a clock covers, in all processes of the run; what passed between them
    is not in it, nor what a killed one spent after its last attempt."""
    cpu_seconds: float | None
    """The process's CPU time in the same span: far below wall time x threads, something else had the machine. None where the
    process died and took it along."""
    to_target: ToTarget | None
    """None where the target was not reached, or there was none."""
    evaluations: tuple[Evaluation, ...]
    test_quality: float | None
    """The quality on the test split at the end of a run that reached its target or used its budget; None for any other."""
    data_digest: str | None
    """SHA-256 over the data that the run used; None where it was not built, or the process died."""
    initial_digest: str | None
    """SHA-256 of the weights before the first attempt; None where no model was built."""
    weights_digest: str | None
    """SHA-256 of the final weights; None likewise."""
    ledger: str | None
    """The path that the caller gave; None where no ledger was asked for or begun."""
    device: str
    emulated: bool
    """Whether the device computes the policy's arithmetic by conversion, so that the seconds say nothing."""
    environment: Mapping[str, Any]
    protocol_hash: str | None

    @property
    def last(self) -> float | None:
        """The quality of the last evaluation; None where there was none."""
        return self.evaluations[-1].quality if self.evaluations else None

    def as_dict(self) -> dict[str, Any]:
        """The record as strict JSON values; a float that is not finite is "nan", "inf" or "-inf"."""
        return {
            "schema": SCHEMA,
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "counts": counts_record(self.counts),
            "clocks": asdict(self.clocks),
            "to_target": None if self.to_target is None else asdict(self.to_target),
            "evaluations": [asdict(each) | {"quality": encoded(each.quality)} for each in self.evaluations],
            "test_quality": encoded(self.test_quality),
            "environment": dict(self.environment),
        }

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> RunRecord:
        """The record that `as_dict` was called on.

        Raises:
            RecordError: another schema, or a field that is missing, unknown or of the wrong kind.
        """
        schema = record.get("schema")
        if schema != SCHEMA:
            raise RecordError(
                f"a run's record of schema {schema}", hint=f"this version of truestep reads schema {SCHEMA}", schema=schema
            )
        names = {field.name for field in fields(RunRecord)}
        if odd := sorted(names ^ (record.keys() - {"schema"})):
            hint = "it is of another version of truestep, or no record of a run"
            words = ", ".join(odd)
            raise RecordError(f"a run's record with fields missing or unknown: {words}", hint=hint, fields=words)
        try:
            return RunRecord(**{name: record[name] for name in names} | _built(record))
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # JSON can hold anything in any place
            hint = "restore the file that holds it"
            raise RecordError(f"a run's record with a field of the wrong kind: {error}", hint=hint) from error


def _built(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are no JSON values in memory."""
    evaluations = [each | {"quality": decoded(each["quality"])} for each in record["evaluations"]]
    return {
        "counts": counts_of(record["counts"]),
        "clocks": Clocks(**record["clocks"]),
        "to_target": None if record["to_target"] is None else ToTarget(**record["to_target"]),
        "evaluations": tuple(Evaluation(**each) for each in evaluations),
        "test_quality": decoded(record["test_quality"]),
    }
