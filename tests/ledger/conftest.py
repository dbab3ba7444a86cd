"""Outcomes and ledgers to test with."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from truestep.engine.counts import Counts
from truestep.engine.outcome import Outcome, Reason, Skip
from truestep.ledger import Ledger


@pytest.fixture
def full_outcome() -> Outcome:
    """A skipped attempt with no field at a default and no float that decimal digits write exactly."""
    return Outcome(
        policy="fp16",
        skip=Skip(reason=Reason.BACKWARD, place="layer.0\ud800 weight ä\n", detail='"inf" in 3 of 4', curable=True),
        loss=0.1 + 0.2,
        lr=(1 / 3, 1e-300),
        grad_norm=2 / 3,
        grad_norm_clipped=5e-324,
        loss_scale=65536.0,
        next_loss_scale=32768.0,
        weight=7.7,
        weight_check="agrees with mse_loss's mean over 7",
        microbatches=4,
        examples=64,
        tokens=1234,
        seconds=0.012345678901234567,
        counts=Counts(
            attempts=11,
            completed=8,
            skipped_by_reason=MappingProxyType({"backward overflow": 2, "forward overflow": 1}),
            consecutive_skips=2,
            examples_seen=704,
            examples_applied=512,
            tokens_seen=13574,
            tokens_applied=9872,
            ticks=7,
        ),
        parameters_moved=True,
        losses={"text": 0.1, "image": float("-inf")},
        seconds_by_stage={"forward": 1 / 3, "bookkeeping": 5e-324},
    )


def attempts(
    reasons: Sequence[Reason | None], *, after: Counts | None = None, tokens: int | None = 10, policy: str = "fp16"
) -> list[Outcome]:
    """One outcome of 8 examples and 0.5 s for each reason, None being a completed one, which ticks."""
    counts, outcomes = after or Counts(), []
    for reason in reasons:
        counts = counts.after(reason=reason, examples=8, tokens=tokens).ticked(1 if reason is None else 0)
        outcomes.append(
            Outcome(
                policy=policy,
                skip=reason and Skip(reason=reason, place="head.weight", detail="inf", curable=True),
                loss=1.5,
                lr=(0.1,),
                grad_norm=None if reason else 3.0,
                grad_norm_clipped=None if reason else 1.0,
                loss_scale=2.0 ** min(counts.attempts, 100),
                next_loss_scale=2.0,
                weight=8.0,
                weight_check="not checked",
                microbatches=2,
                examples=8,
                tokens=tokens,
                seconds=0.5,
                counts=counts,
            )
        )
    return outcomes


@pytest.fixture
def make_attempts() -> Callable[..., list[Outcome]]:
    return attempts


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write outcomes to a ledger and return its path; `resume` goes on in it."""

    def written(outcomes: Sequence[Outcome], *, resume: bool = False, name: str = "run.jsonl") -> Path:
        with Ledger(tmp_path / name, run_id="a run", resume=resume, environment={"cpu": "test"}) as ledger:
            for outcome in outcomes:
                ledger.record(outcome)
        return tmp_path / name

    return written


@pytest.fixture
def plain_outcome(full_outcome: Outcome) -> Outcome:
    """A completed attempt with everything absent that can be absent."""
    return replace(
        full_outcome,
        skip=None,
        loss=None,
        grad_norm=None,
        grad_norm_clipped=None,
        weight=None,
        examples=None,
        tokens=None,
        lr=(),
        parameters_moved=None,
        losses=None,
    )
