"""Declares a comparison: asks task and machine for what the protocol states, and refuses what cannot be run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

from truestep.compare.candidate import Candidate
from truestep.compare.code import code_digest
from truestep.compare.conditions import conditions_of, demand_judgeable
from truestep.compare.describe import described
from truestep.compare.order import IN_WORDS
from truestep.compare.protocol import Protocol
from truestep.compare.settings import scale_of, settings_of
from truestep.compare.target import Pilot
from truestep.engine.policy import Policy
from truestep.engine.policy import scale_of as policy_scale
from truestep.errors import PolicyError, ProtocolError, UsageError
from truestep.ledger.environment import environment
from truestep.run import plan_of
from truestep.run.building import device_of
from truestep.run.clocks import PRIMARY
from truestep.run.options import demand_options
from truestep.tasks import Task, load

T = TypeVar("T")

WARMUP_ATTEMPTS = 3
"""In the process of each run: what a first attempt, a second and an evaluation load and fill."""
STARTUP_SECONDS = 60.0
"""What a process has at the least for its startup and its warm-up together, under any limit."""
RETRIES = "none; on request those whose process failed, all their earlier seconds counting as waste"
QUALITY_MARGIN = 0.01
"""Of the target: the loss of final quality that counts as none, where nobody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a user asks of a comparison; None leaves it to the task, or as the field says."""

    task: str
    """A built-in task, or FILE.py:NAME."""
    candidates: Sequence[str]
    """The baseline first."""
    seeds: Sequence[int]
    target: float | None = None
    budget_attempts: int | None = None
    budget_seconds: float | None = None
    """None: attempts alone bound a run."""
    evaluate_every: int | None = None
    """Examples; None: the task's, else once an epoch."""
    to_the_end: bool = False
    """Whether a run goes on to the end of its budget after it has reached the target."""
    threads: int = 1
    margin_examples: float = 0.05
    margin_quality: float | None = None
    """None: a hundredth of the target."""
    alpha: float = 0.05
    fail_if: Sequence[str] = ()
    """Conditions, each alone or several parted by commas."""
    jobs: int = 1
    timeout: float | None = None
    """Seconds of wall time of a run's process; None: no limit."""
    is_pilot: bool = False
    """Whether these are the runs that a target is set by; they have none."""


def declare(asked: Asked, *, pilot: Pilot | None = None) -> tuple[Task, Protocol]:
    """The task and the protocol of the comparison that is asked for. Nothing is trained and nothing is written.

    Args:
        pilot: what the target is set by; None: the task or the user declares it.

    Raises:
        UsageError: a task, candidate, target, budget or margin that cannot be; each says what can.
        RunError: the task's own code failed.
    """
    candidates = tuple(str(Candidate.parse(text)) for text in asked.candidates)
    for candidate in candidates:
        with _naming(candidate):
            _demand_policy(Candidate.parse(candidate))
    task = load(asked.task)
    target, target_from = _target(task, asked, pilot)
    budget = _first(asked.budget_attempts, task.updates)
    about, machine = described(task, seeds=asked.seeds, ticks=budget), environment()
    protocol = Protocol(
        task=asked.task,
        code_digest=code_digest(task, asked.task),
        data_digest=about.data_digest,
        model=about.model,
        initial_weights=about.initial_weights,
        optimizer=about.optimizer,
        schedule=about.schedule,
        clock="completed",
        batch=task.batch,
        microbatches=task.microbatches,
        splits=about.splits,
        quality=task.quality_name,
        direction=task.quality_better,
        target=target,
        target_from=target_from,
        pilot=None if pilot is None else pilot.as_dict(),
        evaluate_every=_first(asked.evaluate_every, task.evaluate_every, about.splits["train"]),
        evaluation="fp32 on the validation split; the test split once, at a run's end",
        budget_attempts=budget,
        budget_seconds=asked.budget_seconds,
        stop_at_target=not asked.to_the_end,
        max_consecutive_skips=50,
        candidates=candidates,
        seeds=tuple(asked.seeds),
        order=IN_WORDS,
        warmup_attempts=WARMUP_ATTEMPTS,
        threads=asked.threads,
        retries=RETRIES,
        primary_clock=" + ".join(PRIMARY),
        margin_examples=asked.margin_examples,
        margin_quality=None if target is None else _first(asked.margin_quality, QUALITY_MARGIN * abs(target)),
        alpha=asked.alpha,
        fail_if=conditions_of(asked.fail_if),
        device=machine["device"] if torch.cuda.is_available() else f"{machine['device']}, {machine['cpu']}",
        versions={name: machine[name] for name in ("python", "torch", "truestep")},
        jobs=asked.jobs,
        timeout_seconds=asked.timeout,
        startup_timeout_seconds=None if asked.timeout is None else max(asked.timeout, STARTUP_SECONDS),
    )
    _demand_possible(task, protocol)
    return task, protocol


def _target(task: Task, asked: Asked, pilot: Pilot | None) -> tuple[float | None, str]:
    """The target and where it comes from; None for the runs of a pilot."""
    if asked.is_pilot:
        return None, "none: these runs are a pilot, by which one is set"
    source = "the task" if asked.target is None else "the user"
    target = task.target if asked.target is None else asked.target
    if pilot is not None:
        target, source = pilot.target, str(pilot)
    if target is None:
        raise ProtocolError(
            f"{asked.task} declares no target, and a race needs one",
            hint=f"--target X, a {task.quality_name} of which {task.quality_better} is better; or --pilot 10, which sets one",
            task=asked.task,
        )
    if target == 0 and asked.margin_quality is None:
        raise ProtocolError(
            "a hundredth of a target of 0 is no margin",
            hint=f"--margin-quality X, the loss of {task.quality_name} that still counts as none"
            + ("" if pilot is None else "; the pilot's runs are kept: go on with --resume"),
        )
    return target, source


def _demand_possible(task: Task, protocol: Protocol) -> None:
    """UsageError unless every candidate's window, schedule and options are possible, and every condition can be judged."""
    for candidate in protocol.candidates:
        with _naming(candidate):
            settings = settings_of(protocol, candidate)
            plan_of(task, settings, examples=protocol.splits["train"])
            demand_options(task, settings.optimizer)
    demand_judgeable(protocol.fail_if, protocol.candidates, emulated=_emulated(protocol.candidates))


def _demand_policy(asked: Candidate) -> None:
    """PolicyError unless the device can do what the candidate says, and its loss scale is one for it."""
    policy = Policy.named(asked.policy).on(device_of(None))
    scale = None if asked.scale is None else scale_of(asked.scale)
    try:
        policy_scale(policy, scale, allow_underflow=asked.underflow is not None)
    except PolicyError as error:  # what it advises is written otherwise in a candidate
        hint = "leave scale=none out, or race bf16; to show what it costs: scale=none underflow=allowed"
        raise PolicyError(error.summary, hint=hint, **error.facts) from None


def _emulated(candidates: Sequence[str]) -> tuple[str, ...]:
    """Those whose arithmetic this device computes by conversion."""
    device = device_of(None)
    return tuple(text for text in candidates if Policy.named(Candidate.parse(text).policy).emulated(device))


@contextmanager
def _naming(candidate: str) -> Iterator[None]:
    """What is refused inside is refused of `candidate`."""
    try:
        yield
    except UsageError as error:  # of the engine or the run, which know of no candidates
        summary = error.summary if candidate in error.summary else f"candidate {candidate!r}: {error.summary}"
        raise type(error)(summary, hint=error.hint, **{"candidate": candidate} | error.facts) from None


def _first(*values: T | None) -> T:
    """The first that was said."""
    return next(value for value in values if value is not None)
