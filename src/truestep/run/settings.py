"""How a task is run: what the caller may set, and the plan that follows from it and the task. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from truestep.engine.clip import Clip
from truestep.engine.clock import Every
from truestep.engine.policy import Policy
from truestep.engine.scale import LossScale
from truestep.errors import UsageError
from truestep.run.faults import demand_fault
from truestep.run.options import Options
from truestep.tasks import Task

OnOom = Literal["stop", "accumulate"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What one run does with a task. None leaves it to the task, the policy, or the machine, as each field says.

    Raises:
        UsageError: a number that cannot be.

    >>> Settings(policy="fp16", scale=LossScale.static(1024.0)).name
    'fp16'
    """

    policy: str = "fp32"
    candidate: str | None = None
    """The run's name in its record; None: the policy's."""
    scale: LossScale | None = None
    """None: the policy's."""
    allow_underflow: bool = False
    """Permits float16 without a loss scale."""
    optimizer: Options = ()
    """Options that every parameter group gets in place of the task's: ("lr", 0.1), say."""
    fault: str | None = None
    """A demonstration: the run goes through a hand-written loop with this mistake (run/faults.py), and not through the engine."""
    clip: Clip | None = None
    clock: str | Every = "completed"
    """What a tick of the task's schedule means."""
    microbatches: int | None = None
    """Microbatches of a window; None: the task's. The examples of an effective update stay the task's `batch`."""
    budget_attempts: int | None = None
    """Attempts after which the run ends; None: the task's `updates`. The schedule is laid out over as many."""
    budget_seconds: float | None = None
    """Seconds of the primary clock after which the run ends; None: attempts alone bound it."""
    evaluate_every: int | None = None
    """Examples seen between two evaluations; None: the task's, else once an epoch."""
    target: float | None = None
    """The quality that the run races to; None: the task's."""
    races: bool = True
    """Whether there is a target at all; otherwise the task's is passed over too."""
    stop_at_target: bool = True
    """Whether the run ends at the target; otherwise it notes the target and goes on to the end of its budget."""
    max_consecutive_skips: int = 50
    """Skipped attempts in a row that end the run."""
    on_oom: OnOom = "stop"
    """What follows an attempt for which memory did not suffice: the end of the run, or the same window in twice as many
    microbatches, and so on from there."""
    time_stages: bool = False
    """Whether each line of the ledger says where its attempt's seconds went."""
    threads: int | None = None
    """Of torch on the CPU; None: as the process has them."""
    device: str | None = None
    """None: the CUDA device where there is one, else the CPU."""

    def __post_init__(self) -> None:
        """Validate once."""
        for name in ("microbatches", "budget_attempts", "evaluate_every", "max_consecutive_skips", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}", hint=f"{name} is 1 or more", field=name, value=value)
        if self.budget_seconds is not None and not 0 < self.budget_seconds < math.inf:
            raise UsageError(f"budget_seconds is {self.budget_seconds}", hint="leave it out, or give seconds above 0")
        if self.on_oom not in get_args(OnOom):
            raise UsageError(f"on_oom is {self.on_oom!r}", hint=f"on_oom is one of: {', '.join(get_args(OnOom))}")
        if self.fault is not None and self.on_oom != "stop":
            raise UsageError("the hand-written loop of a fault cannot split a window again", hint='leave on_oom at "stop"')
        if not self.races and self.target is not None:
            raise UsageError(
                f"target is {self.target} of a run that races to none", hint="leave the target out, or races at True"
            )
        if self.target is not None and not math.isfinite(self.target):
            raise UsageError(f"target is {self.target}", hint="a target is a finite number")

    @property
    def name(self) -> str:
        """What the record calls the run."""
        return self.candidate or self.policy


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The numbers of one run, none of them left open."""

    batch: int
    microbatches: int
    attempts: int
    """The budget."""
    ticks: int
    """Ticks of the scheduler's clock in that budget, if nothing is skipped: the length of the schedule."""
    evaluate_every: int
    target: float | None
    quality_better: Literal["higher", "lower"]

    def meets_target(self, quality: float) -> bool:
        """Whether `quality` is the target or better.

        >>> from truestep.tasks import Digits
        >>> plan = plan_of(Digits(), Settings(target=0.9), examples=1197)
        >>> plan.meets_target(0.9), plan.meets_target(0.89)
        (True, False)
        """
        if self.target is None:
            return False
        return quality >= self.target if self.quality_better == "higher" else quality <= self.target


def plan_of(task: Task, settings: Settings, *, examples: int) -> Plan:
    """The plan of a run over a training split of `examples`.

    Raises:
        UsageError: more microbatches than examples in a window, a schedule by tokens, whose length nobody knows, or a fault that
            could not show itself.
    """
    microbatches = settings.microbatches or task.microbatches
    if microbatches > task.batch:
        raise UsageError(
            f"{microbatches} microbatches do not fit a batch of {task.batch} examples",
            hint="ask for no more microbatches than examples",
            microbatches=microbatches,
            batch=task.batch,
        )
    if settings.fault is not None:
        demand_fault(
            settings.fault,
            policy=Policy.named(settings.policy),
            scale=settings.scale,
            clip=settings.clip,
            clock=settings.clock,
            microbatches=microbatches,
        )
    attempts = settings.budget_attempts or task.updates
    return Plan(
        batch=task.batch,
        microbatches=microbatches,
        attempts=attempts,
        ticks=_ticks(settings.clock, attempts=attempts, batch=task.batch, examples=examples),
        evaluate_every=settings.evaluate_every or task.evaluate_every or examples,
        target=None if not settings.races else task.target if settings.target is None else settings.target,
        quality_better=task.quality_better,
    )


def _ticks(clock: str | Every, *, attempts: int, batch: int, examples: int) -> int:
    """Ticks in `attempts` completed attempts: whole epochs of full windows and a short one, then what is left."""
    windows = math.ceil(examples / batch)
    if clock == "epoch":
        return max(1, math.ceil(attempts / windows))
    if not isinstance(clock, Every):
        return attempts
    if clock.examples is None:
        raise UsageError(
            "a schedule that ticks by tokens has no length that can be told beforehand",
            hint="run this task with clock='completed' or Every(examples=N)",
        )
    epochs, rest = divmod(attempts, windows)
    return max(1, (epochs * examples + rest * batch) // clock.examples)
