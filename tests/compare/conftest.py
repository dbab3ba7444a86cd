"""Protocols and records as the laws need them, each field away from any default."""

import pytest

from truestep.compare import Protocol


def _protocol(**changes):
    fields = {
        "task": "digits",
        "code_digest": "f" * 64,
        "data_digest": "d" * 64,
        "model": "MLP",
        "initial_weights": {"3": "a" * 64, "5": "b" * 64},
        "optimizer": "AdamW lr=0.003",
        "schedule": "cosine over 400 updates",
        "clock": "completed",
        "batch": 64,
        "microbatches": 2,
        "splits": {"train": 1197, "validation": 300, "test": 300},
        "quality": "accuracy",
        "direction": "higher",
        "target": 0.95,
        "pilot": {"median": 0.96, "slack": 0.01},
        "target_from": "a pilot",
        "evaluate_every": 320,
        "evaluation": "fp32 on validation",
        "budget_attempts": 400,
        "budget_seconds": 20.0,
        "stop_at_target": True,
        "max_consecutive_skips": 50,
        "candidates": ("fp32", "fp16"),
        "seeds": (3, 5, 7, 11, 13, 17),
        "order": "by seed",
        "warmup_attempts": 4,
        "threads": 2,
        "retries": "none",
        "primary_clock": "train + waste",
        "margin_examples": 0.05,
        "margin_quality": 0.01,
        "alpha": 0.05,
        "device": "cpu",
        "versions": {"python": "3.11.7", "torch": "2.14.1", "truestep": "0.1.0"},
        "jobs": 1,
        "timeout_seconds": 900.0,
        "startup_timeout_seconds": 950.0,
    }
    return Protocol(**fields | changes)


def _record(protocol, candidate, seed, *, seconds=10.0, examples=6400, status="reached", **changes):
    """A run's record; `seconds` and `examples` are to the target, and unused where it was not reached."""
    reached = status == "reached"
    completed = examples // 64
    spent = seconds if reached else 2.0
    return {
        "schema": 1,
        "candidate": candidate,
        "seed": seed,
        "status": status,
        "detail": None if reached else f"{status} at attempt {completed}",
        "hint": None,
        "counts": {
            "attempts": completed + 5,
            "completed": completed,
            "skipped_by_reason": {"backward overflow": 4, "non-finite loss": 1},
            "consecutive_skips": 0,
            "examples_seen": examples + 320,
            "examples_applied": examples,
            "tokens_seen": None,
            "tokens_applied": None,
            "ticks": completed,
        },
        "clocks": {"init": 0.5, "train": spent, "eval": 0.25, "checkpoint": 0.0, "waste": 0.0},
        "total_seconds": spent + 0.75,
        "cpu_seconds": 2 * 0.95 * (spent + 0.75),
        "to_target": {
            "seconds": seconds,
            "attempts": completed + 5,
            "completed": completed,
            "examples": examples,
            "tokens": None,
        }
        if reached
        else None,
        "evaluations": [{"examples": examples, "completed": completed, "quality": 0.96, "train_seconds": spent}],
        "test_quality": 0.9 if reached else None,
        "data_digest": protocol.data_digest,
        "initial_digest": protocol.initial_weights.get(str(seed)),
        "weights_digest": "c" * 64,
        "ledger": f"ledgers/{candidate}-seed{seed}.jsonl",
        "device": "cpu",
        "emulated": False,
        "environment": {"threads": 2},
        "protocol_hash": protocol.hash,
        "process": {
            "startup_seconds": 2.5,
            "warmup_seconds": 1.5,
            "wall_seconds": spent + 4.75,
            "peak_memory_bytes": 2**29,
            "exit_code": 0,
            "signal": None,
            "at_once": 1,
            "earlier": [],
        },
    } | changes


@pytest.fixture
def declare():
    """A protocol with these fields changed."""
    return _protocol


@pytest.fixture
def ran():
    """A run's record: ran(protocol, candidate, seed, seconds=..., examples=..., status=..., **fields)."""
    return _record


@pytest.fixture
def raced():
    """The records of whole candidates: raced(protocol, fp32=[10, 11], fp16=[9, None]); None never reached the target."""

    def build(protocol, changes=None, **times):
        records = []
        for candidate, row in times.items():
            for seed, seconds in zip(protocol.seeds, row, strict=False):
                how = {"status": "diverged"} if seconds is None else {"seconds": seconds, "examples": round(seconds * 640)}
                how |= (changes or {}).get(candidate, {})
                records.append(_record(protocol, candidate.replace("_", " "), seed, **how))
        return records

    return build
