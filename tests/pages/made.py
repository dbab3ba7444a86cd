"""A comparison's folder made up for the tests: written by the writers of the real one, with invented runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from truestep.compare.candidate import Candidate
from truestep.compare.order import order
from truestep.compare.protocol import Protocol
from truestep.compare.verdict import summarize
from truestep.engine.counts import Counts
from truestep.engine.outcome import Outcome, Reason, Skip
from truestep.ledger import Ledger
from truestep.run.clocks import Clocks
from truestep.run.record import Evaluation, RunRecord, ToTarget

ENVIRONMENT = {
    "truestep": "0.1.0",
    "torch": "2.14.1",
    "python": "3.12.3",
    "platform": "Linux-6.1-x86_64-with-glibc2.36",
    "cpu": "AMD EPYC 9B14",
    "threads": 2,
    "device": "cpu",
    "commit": None,
}
BATCH = 64
TARGET = 0.95

# Seconds of an attempt, relative to the baseline; noise of the gradient; the loss scale that a run starts from.
PACE = {"fp32": 1.0, "bf16": 0.72, "fp16": 1.6, "fp16 scale=static:1024": 1.55, "fp32 again": 1.01}
START = {"fp16": 65536.0, "fp16 scale=static:1024": 1024.0}


def protocol(**changes: Any) -> Protocol:
    """A protocol of four candidates and seven seeds."""
    fields: dict[str, Any] = {
        "task": "digits",
        "code_digest": "3a" * 32,
        "data_digest": "5c" * 32,
        "model": "MLP 64-128-10, 9,610 parameters, torch's default initialisation",
        "initial_weights": {str(seed): f"{seed:064x}" for seed in range(7)},
        "optimizer": "AdamW(lr=0.003, betas=(0.9, 0.999), weight_decay=0.01, fused=True)",
        "schedule": "OneCycleLR(max_lr=0.003, total_steps=600)",
        "clock": "completed",
        "batch": BATCH,
        "microbatches": 4,
        "splits": {"train": 1197, "validation": 300, "test": 300},
        "quality": "accuracy",
        "direction": "higher",
        "target": TARGET,
        "target_from": "the user",
        "evaluate_every": 1280,
        "evaluation": "float32, on the validation split",
        "budget_attempts": 600,
        "budget_seconds": 12.0,
        "stop_at_target": False,
        "max_consecutive_skips": 50,
        "candidates": tuple(PACE)[:4],
        "seeds": tuple(range(7)),
        "order": "by seed; within a seed the candidates, rotated by one from seed to seed",
        "warmup_attempts": 20,
        "threads": 2,
        "retries": "none: a run that failed is a failure",
        "primary_clock": "train + waste",
        "margin_examples": 0.05,
        "margin_quality": 0.01,
        "alpha": 0.05,
        "device": "cpu, AMD EPYC 9B14",
        "versions": {"python": "3.12.3", "torch": "2.14.1", "truestep": "0.1.0"},
    }
    return Protocol(**fields | changes)


def outcomes(candidate: str, seed: int, attempts: int) -> Iterator[Outcome]:
    """A run's attempts: a loss that falls with noise, a norm that follows it, a scale that overflows now and then."""
    random = np.random.default_rng([seed, list(PACE).index(candidate)])
    scale = START.get(candidate, 1.0)
    counts, since = Counts(), 0
    for attempt in range(1, attempts + 1):
        dynamic = candidate == "fp16"
        overflow = dynamic and (scale > 2.0**14 or since > 170)
        stuck = "static" in candidate and seed == 5 and attempt > 240
        bad = overflow or stuck
        loss = 2.3 * math.exp(-attempt / 90) + 0.06 + 0.05 * random.gamma(2.0)
        norm = None if bad else 0.3 + 2.2 * math.exp(-attempt / 120) * random.gamma(6.0) / 6
        after = scale / 2 if overflow else scale * 2 if dynamic and since and since % 120 == 0 else scale
        counts = counts.after(reason=Reason.BACKWARD.value if bad else None, examples=BATCH, tokens=None)
        skip = Skip(reason=Reason.BACKWARD, place="1.weight", detail="inf in 3 of 8192", curable=True) if bad else None
        yield Outcome(
            policy=candidate.split(maxsplit=1)[0],
            skip=skip,
            loss=math.nan if stuck and attempt > 280 else loss,
            lr=(0.003,),
            grad_norm=norm,
            grad_norm_clipped=None if norm is None else min(1.0, norm),
            loss_scale=scale,
            next_loss_scale=after,
            weight=float(BATCH),
            weight_check="agrees with the graph",
            microbatches=4,
            examples=BATCH,
            tokens=None,
            seconds=0.012 * PACE.get(candidate, 1.0),
            counts=counts,
        )
        since = 0 if bad else since + 1
        scale = after


def run(candidate: str, seed: int, declared: Protocol, out: Path, attempts: int = 600) -> dict[str, Any]:
    """One run's ledger, written, and its record."""
    random = np.random.default_rng([seed, 7, list(PACE).index(candidate)])
    pace = 0.012 * PACE.get(candidate, 1.0)
    failed = {("fp16 scale=static:1024", 5): "diverged", ("fp16 scale=static:1024", 2): "budget"}.get((candidate, seed))
    reach = None if failed else 230 + 15 * seed + int(random.integers(0, 30))
    length = 330 if failed == "diverged" else attempts
    relative = f"ledgers/{Candidate.parse(candidate).slug}-seed{seed}.jsonl"
    (out / "ledgers").mkdir(parents=True, exist_ok=True)
    with Ledger(out / relative, protocol_hash=declared.hash, environment=ENVIRONMENT, run_id=relative) as ledger:
        for outcome in outcomes(candidate, seed, length):
            ledger.record(outcome)
    counts = outcome.counts
    train = pace * length * float(random.normal(1, 0.03))
    reached = None
    if reach is not None:
        examples = -(-reach * BATCH // 1280) * 1280
        done = examples // BATCH
        spent = train * done / length
        reached = ToTarget(seconds=spent, attempts=done, completed=done, examples=examples, tokens=None)
    last = reach or length
    evaluations = tuple(
        Evaluation(
            examples=examples,
            completed=examples // BATCH,
            quality=round(min(0.975, 0.5 + (0.45 if reach else 0.4) * min(1.0, examples / (last * BATCH))), 4),
            train_seconds=train * examples / (BATCH * length),
        )
        for examples in range(1280, length * BATCH + 1, 1280)
    )
    record = RunRecord(
        candidate=candidate,
        seed=seed,
        status=failed or "reached",
        detail="the loss stayed non-finite for 50 attempts" if failed == "diverged" else None,
        hint=None,
        counts=counts,
        clocks=Clocks(init=0.04, train=train, eval=0.2, checkpoint=0.0, waste=0.0),
        total_seconds=train + 0.24,
        cpu_seconds=1.9 * train,
        to_target=reached,
        evaluations=evaluations,
        test_quality=None if failed == "diverged" else 0.96 + 0.001 * seed,
        data_digest=declared.data_digest,
        initial_digest="ab" * 32,
        weights_digest=f"{seed + 1:02x}" * 32,
        ledger=relative,
        device="cpu",
        emulated=candidate.startswith("fp16"),
        environment=ENVIRONMENT,
        protocol_hash=declared.hash,
    )
    return record.as_dict()


def comparison(out: Path, *, attempts: int = 600, **changes: Any) -> Path:
    """A whole folder: protocol, ledgers, records, summary. `changes` are the protocol's fields."""
    declared = protocol(**changes)
    out.mkdir(parents=True, exist_ok=True)
    (out / "protocol.json").write_bytes(declared.canonical())
    slots = order(declared.candidates, declared.seeds)
    write_records(out, [run(slot.candidate, slot.seed, declared, out, attempts) for slot in slots])
    return out


def records_of(out: Path) -> list[dict[str, Any]]:
    """The records in a folder."""
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


def write_records(out: Path, records: list[dict[str, Any]]) -> None:
    """records.jsonl, and the summary that follows from it."""
    (out / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    declared = Protocol.from_dict(json.loads((out / "protocol.json").read_text()))
    (out / "summary.json").write_text(json.dumps(summarize(declared, records).as_dict(), allow_nan=False))
