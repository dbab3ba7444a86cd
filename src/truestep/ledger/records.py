"""An outcome as one JSON object, and back without loss. Pure values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from truestep.engine.counts import Counts
from truestep.engine.outcome import Outcome, Reason, Skip
from truestep.ledger.alarm import Alert

SCHEMA = 1
"""Moves when a line's meaning moves; a reader refuses every other number."""

Record = dict[str, Any]


def encoded(value: float | None) -> float | str | None:
    """`value` as strict JSON holds it: a number, or "nan", "inf", "-inf"; None stays None.

    >>> encoded(0.5), encoded(float("inf")), encoded(None)
    (0.5, 'inf', None)
    """
    return value if value is None or math.isfinite(value) else str(float(value))


def decoded(value: float | str | None) -> float | None:
    """The float that `encoded` was given.

    >>> decoded("-inf"), decoded(2), decoded(None)
    (-inf, 2.0, None)
    """
    return None if value is None else float(value)


def header_record(
    *, run_id: str, created: str, environment: Mapping[str, Any], policy: str | None, protocol_hash: str | None
) -> Record:
    """A ledger's first line. `policy` is what the writer was told, or None: each attempt names its own."""
    return {
        "kind": "header",
        "schema": SCHEMA,
        "run_id": run_id,
        "created": created,
        "environment": dict(environment),
        "policy": policy,
        "protocol_hash": protocol_hash,
    }


def resume_record(*, attempts: int, created: str, environment: Mapping[str, Any]) -> Record:
    """The line after which a run went on from attempt `attempts`; earlier lines beyond that attempt became waste."""
    return {"kind": "resume", "attempts": attempts, "created": created, "environment": dict(environment)}


def alarm_record(alert: Alert) -> Record:
    """The line of an alarm, right below the attempt that it sounded at."""
    return {
        "kind": "alarm",
        "attempt": alert.attempt,
        "limit": alert.limit,
        "attempts": alert.attempts,
        "skipped_by_reason": dict(alert.skipped_by_reason),
        "place": alert.place,
        "detail": alert.detail,
        "next_loss_scale": encoded(alert.next_loss_scale),
    }


def alert_of(record: Mapping[str, Any]) -> Alert:
    """The alert that `alarm_record` was given."""
    values = {name: record[name] for name in ("attempt", "attempts", "place", "detail", "skipped_by_reason")}
    scale, limit = float(record["next_loss_scale"]), float(record["limit"])
    return Alert(next_loss_scale=scale, limit=limit, **values)


def sink_record(*, sink: str, attempts: int, seconds: float, error: str | None) -> Record:
    """What a sink took of this ledger before it was closed, in what time; or before it was dropped, and why."""
    return {"kind": "sink", "sink": sink, "attempts": attempts, "seconds": seconds, "error": error}


def attempt_record(outcome: Outcome) -> Record:
    """One attempt's line: every field of the outcome, the running totals, and the rates that follow from them.

    perf/seconds_by_stage is there where the update was asked for it, by time_stages=True. A rate is what was applied divided by
    the attempt's own seconds: 0 on a skip, None where the clock did not move or tokens are not counted.
    """
    counts = outcome.counts
    return {
        "kind": "attempt",
        "attempt": counts.attempts,
        "policy": outcome.policy,
        "completed": outcome.completed,
        "skip": None if outcome.skip is None else _skip_record(outcome.skip),
        "train/loss": encoded(outcome.loss),
        "train/losses": _by_term(outcome.losses),
        "lr": [encoded(rate) for rate in outcome.lr],
        "grad_norm": encoded(outcome.grad_norm),
        "grad_norm_clipped": encoded(outcome.grad_norm_clipped),
        "amp/loss_scale": encoded(outcome.loss_scale),
        "amp/next_loss_scale": encoded(outcome.next_loss_scale),
        "amp/skipped_total": counts.skipped,
        "weight": _by_term(outcome.weight),
        "weight_check": outcome.weight_check,
        "microbatches": outcome.microbatches,
        "examples": outcome.examples,
        "tokens": outcome.tokens,
        "seconds": encoded(outcome.seconds),
        "parameters_moved": outcome.parameters_moved,
        "perf/examples_per_s": _rate(outcome, outcome.examples),
        "perf/tokens_per_s": _rate(outcome, outcome.tokens),
        **({} if outcome.seconds_by_stage is None else {"perf/seconds_by_stage": _by_term(outcome.seconds_by_stage)}),
        "counts": counts_record(counts),
    }


def outcome_of(record: Mapping[str, Any]) -> Outcome:
    """The outcome that `attempt_record` was given; `record` is a line that `reading.read` let pass."""
    values = {name: decoded(record[key]) for name, key in _FLOATS.items()}
    return Outcome(
        policy=record["policy"],
        skip=None if record["skip"] is None else _skip_of(record["skip"]),
        lr=tuple(float(rate) for rate in record["lr"]),
        weight=_by_term_of(record["weight"]),
        weight_check=record["weight_check"],
        microbatches=record["microbatches"],
        examples=record["examples"],
        tokens=record["tokens"],
        counts=counts_of(record["counts"]),
        parameters_moved=record["parameters_moved"],
        losses=_by_term_of(record["train/losses"]),
        seconds_by_stage=_by_term_of(record.get("perf/seconds_by_stage")),
        **values,  # type: ignore[arg-type]  # the three that cannot be None were never written as None
    )


_FLOATS = {
    "loss": "train/loss",
    "grad_norm": "grad_norm",
    "grad_norm_clipped": "grad_norm_clipped",
    "loss_scale": "amp/loss_scale",
    "next_loss_scale": "amp/next_loss_scale",
    "seconds": "seconds",
}
_COUNTS = tuple(field.name for field in fields(Counts))


def _by_term(found: Any) -> Any:
    """One number; or, where there are several, each by its name."""
    return {name: encoded(number) for name, number in found.items()} if isinstance(found, Mapping) else encoded(found)


def _by_term_of(record: Any) -> Any:
    return {name: decoded(number) for name, number in record.items()} if isinstance(record, Mapping) else decoded(record)


def counts_record(counts: Counts) -> Record:
    """Every field of the counts, by its name.

    >>> counts_of(counts_record(Counts(attempts=3, completed=3))) == Counts(attempts=3, completed=3)
    True
    """
    record = {name: getattr(counts, name) for name in _COUNTS}
    record["skipped_by_reason"] = {str(reason): skips for reason, skips in counts.skipped_by_reason.items()}
    return record


def counts_of(record: Mapping[str, Any]) -> Counts:
    """The counts that `counts_record` was given."""
    values = {name: record[name] for name in _COUNTS}
    values["skipped_by_reason"] = MappingProxyType(dict(values["skipped_by_reason"]))
    return Counts(**values)


def _skip_record(skip: Skip) -> Record:
    return {"reason": skip.reason.value, "place": skip.place, "detail": skip.detail, "curable": skip.curable}


def _skip_of(record: Mapping[str, Any]) -> Skip:
    return Skip(reason=Reason(record["reason"]), place=record["place"], detail=record["detail"], curable=record["curable"])


def _rate(outcome: Outcome, amount: int | None) -> float | None:
    """`amount` a second, none of it on a skip."""
    if amount is None or not outcome.seconds > 0:
        return None
    return amount / outcome.seconds if outcome.completed else 0.0
