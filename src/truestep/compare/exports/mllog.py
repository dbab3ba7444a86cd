"""A run as MLLOG-style lines: the keys and the form of mlperf-logging, for tools that read them; no MLPerf result. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from truestep.compare.candidate import Candidate
from truestep.compare.protocol import Protocol
from truestep.compare.standing import Record
from truestep.run.clocks import primary_seconds

START, STOP, POINT = "INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"
NO_RESULT = "a run of a truestep comparison; no MLPerf result"


def log(protocol: Protocol, record: Record, *, begun: str | None) -> str:
    """The run's lines, each `:::MLLOG {json}`, in the order of their times.

    Between run_start and run_stop lies what the primary clock says (train + waste, evaluations left out): T for a run that
    reached the target, and then only the evaluations up to it are there; else what the run spent. `begun`, an ISO time, is when
    its ledger was begun: after task, data and model were built, so that the run starts there, and init lies before. Without
    one, times count from 0 at the beginning of init.
    """
    return "".join(f":::MLLOG {json.dumps(line, allow_nan=False)}\n" for line in lines(protocol, record, begun=begun))


def lines(protocol: Protocol, record: Record, *, begun: str | None) -> Iterator[dict[str, Any]]:
    """The lines as values."""
    init = record["clocks"]["init"]
    run = init if begun is None else datetime.fromisoformat(begun).timestamp()
    start = run - init
    target = record["to_target"]
    for key, value in _settings(protocol, record).items():
        yield _line(start, POINT, key, value)
    yield _line(start, START, "init_start")
    yield _line(run, STOP, "init_stop")
    yield _line(run, START, "run_start")
    seen = 0
    for one in record["evaluations"]:
        if target is None or one["examples"] <= target["examples"]:
            at, where = run + one["train_seconds"], {"samples_count": one["examples"]}
            yield _line(at, POINT, "eval_accuracy", one["quality"], **where)
            seen = one["examples"]
    spent = primary_seconds(record["clocks"]) if target is None else target["seconds"]
    samples = record["counts"]["examples_seen"] if target is None else seen
    yield _line(run + spent, POINT, "trained_samples", samples)
    status = "aborted" if target is None else "success"
    yield _line(run + spent, STOP, "run_stop", status=status, samples_count=samples)
    for key, value in _outcome(record).items():
        yield _line(run + spent, POINT, key, value)


def _settings(protocol: Protocol, record: Record) -> dict[str, Any]:
    """What the run was asked for: mlperf-logging's keys where it has one, else our own."""
    return {
        "truestep_kind": NO_RESULT,
        "truestep_protocol_hash": protocol.hash,
        "truestep_task": protocol.task,
        "truestep_candidate": record["candidate"],
        "truestep_quality": protocol.quality,
        "truestep_direction": protocol.direction,
        "truestep_target": protocol.target,
        "truestep_emulated": record["emulated"],
        "seed": record["seed"],
        "global_batch_size": protocol.batch,
        "gradient_accumulation_steps": Candidate.parse(record["candidate"]).accumulate or protocol.microbatches,
        "max_steps": protocol.budget_attempts,
        "train_samples": protocol.splits["train"],
        "eval_samples": protocol.splits["validation"],
    }


def _outcome(record: Record) -> dict[str, Any]:
    counts, target = record["counts"], record["to_target"]
    return {
        "truestep_status": record["status"],
        "truestep_detail": record["detail"],
        "truestep_seconds_to_target": None if target is None else target["seconds"],
        "truestep_attempts": counts["attempts"],
        "truestep_completed": counts["completed"],
        "truestep_skipped": sum(counts["skipped_by_reason"].values()),
        "truestep_test_quality": record["test_quality"],
    }


def _line(at: float, kind: str, key: str, value: Any = None, **metadata: Any) -> dict[str, Any]:
    """One event; `at` in seconds."""
    return {
        "namespace": "",
        "time_ms": round(at * 1000),
        "event_type": kind,
        "key": key,
        "value": value,
        "metadata": metadata,
    }
