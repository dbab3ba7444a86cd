"""Records of runs as a comparison keeps them, made of a few numbers: what the labs on judging hand to compare's verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from truestep.compare import Protocol

BATCH, BUDGET_ATTEMPTS, BUDGET_SECONDS = 64, 2500, 25.0
SEEDS = (0, 1, 2, 3, 4, 5)
"""Six: the fewest at which a claim can be made."""


def protocol(**changes: Any) -> Protocol:
    """A declared comparison of fp32 and fp16 to a validation accuracy of 0.95."""
    fields: dict[str, Any] = {
        "task": "constructed",
        "code_digest": "0" * 64,
        "data_digest": "0" * 64,
        "model": "constructed",
        "seeds": SEEDS,
        "initial_weights": {},
        "optimizer": "SGD lr=0.1",
        "budget_attempts": BUDGET_ATTEMPTS,
        "schedule": "none",
        "clock": "completed",
        "batch": BATCH,
        "microbatches": 1,
        "splits": {"train": 1000, "validation": 200, "test": 200},
        "quality": "accuracy",
        "direction": "higher",
        "target": 0.95,
        "target_from": "declared before the first run",
        "evaluate_every": 640,
        "evaluation": "fp32 on validation",
        "budget_seconds": BUDGET_SECONDS,
        "stop_at_target": True,
        "max_consecutive_skips": 50,
        "candidates": ("fp32", "fp16"),
        "order": "by seed",
        "warmup_attempts": 0,
        "threads": 1,
        "retries": "none",
        "primary_clock": "train + waste",
        "margin_examples": 0.05,
        "margin_quality": 0.01,
        "alpha": 0.05,
        "device": "cpu",
        "versions": {},
    }
    return Protocol(**fields | changes)


def record(
    protocol: Protocol,
    candidate: str,
    seed: int,
    *,
    updates: int,
    seconds: float,
    reached: bool = True,
    skipped: int = 0,
    quality: float = 0.95,
) -> Mapping[str, Any]:
    """One run's record: so many completed updates in so many seconds, to the target or to a failure."""
    counts = {
        "attempts": updates + skipped,
        "completed": updates,
        "skipped_by_reason": {"backward overflow": skipped} if skipped else {},
        "consecutive_skips": 0,
        "examples_seen": (updates + skipped) * BATCH,
        "examples_applied": updates * BATCH,
        "tokens_seen": None,
        "tokens_applied": None,
        "ticks": updates,
    }
    target = {"attempts": updates + skipped, "completed": updates, "examples": updates * BATCH, "tokens": None}
    return {
        "schema": 1,
        "candidate": candidate,
        "seed": seed,
        "status": "reached" if reached else "diverged",
        "detail": None if reached else f"diverged at attempt {updates}",
        "hint": None,
        "counts": counts,
        "clocks": {"init": 0.0, "train": seconds, "eval": 0.0, "checkpoint": 0.0, "waste": 0.0},
        "total_seconds": seconds,
        "cpu_seconds": seconds,
        "to_target": target | {"seconds": seconds} if reached else None,
        "evaluations": [],
        "test_quality": quality if reached else None,
        "emulated": False,
        "protocol_hash": protocol.hash,
    }


def race(
    asked: Protocol, *, updates: Mapping[str, int], step_seconds: Mapping[str, float], failed: Sequence[int] = ()
) -> list[Mapping[str, Any]]:
    """The records of every seed: the machine is a little slower from seed to seed, for both; the second fails where `failed`.

    A run that fails diverges a tenth of its way in.
    """
    records = []
    for name in asked.candidates:
        for seed in asked.seeds:
            reached = name == asked.baseline or seed not in failed
            made = updates[name] if reached else updates[name] // 10
            seconds = made * step_seconds[name] * slower(seed)
            records.append(record(asked, name, seed, updates=made, seconds=seconds, reached=reached))
    return records


def slower(seed: int) -> float:
    """How much slower the machine is at that seed."""
    return 1 + seed / 100
