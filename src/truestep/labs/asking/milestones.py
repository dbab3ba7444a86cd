"""The two loops that a learner builds: what each is asked for, the file to begin with, and the report of how it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from truestep.errors import UsageError

SCALE, INTERVAL, LIMIT, RATE = 1024.0, 3, 1.0, 0.1
"""Of the task: the first loss scale, the attempts until it doubles, the clip limit, the learning rate."""
ATTEMPTS, BROKEN = 8, 3
"""Windows of the loop, and which of them, counted from 0, has an input of infinity."""

_FILE = '''"""{title}: complete `train`, then run: truestep labs --milestone {name} --file THIS_FILE"""

import torch
from torch.nn.utils import clip_grad_norm_


def train(model, optimizer, scaler, loss, {plural}, limit):
    """One update {each}.

    model      float32 parameters on the CPU
    optimizer  torch.optim.SGD
    scaler     torch.amp.GradScaler("cpu"): its scale doubles after {interval} updates, and halves when one is skipped
    loss       loss(model, batch) is a mean over the batch; it belongs into torch.autocast("cpu", dtype=torch.float16)
    {plural:<9}  {what}
    limit      the largest norm of the gradient, in original units
    """
    for {one} in {plural}:
        ...
'''


@dataclass(frozen=True, kw_only=True)
class Milestone:
    """What is built."""

    name: str
    title: str
    microbatches: int
    """Of a window; 1: the loop is given batches and knows of no windows."""
    skeleton: str
    """The file to begin with."""


def _milestone(name: str, title: str, microbatches: int, **words: str) -> Milestone:
    text = _FILE.format(name=name, title=title, interval=INTERVAL, **words)
    return Milestone(name=name, title=title, microbatches=microbatches, skeleton=text)


MILESTONES = (
    _milestone(
        "1",
        "An AMP loop",
        1,
        plural="batches",
        one="batch",
        each="for each batch, in float16 autocast, with a loss scale and a clip",
        what="one of them has an input of infinity: its update is to be skipped",
    ),
    _milestone(
        "2",
        "Accumulation added",
        4,
        plural="windows",
        one="window",
        each="for each window, equal to the one that all its examples at once would make in float32",
        what="lists of 4 batches of equal size; one batch has an input of infinity: its window's update is to be skipped",
    ),
)


def milestone(name: str) -> Milestone:
    """The milestone of that name; UsageError with all names where there is none."""
    for each in MILESTONES:
        if each.name == name:
            return each
    hint = " or ".join(f"{each.name} ({each.title.lower()})" for each in MILESTONES)
    raise UsageError(f"there is no milestone {name!r}", hint=f"choose {hint}")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The state after an attempt: the loss scale, and whether the weights had moved."""

    scale: float
    moved: bool


@dataclass(frozen=True, kw_only=True)
class Report:
    """How a learner's loop did, beside the engine."""

    milestone: str
    passed: bool
    off: tuple[str, ...]
    """What is not as it should be, in sentences; empty where all is."""
    expected: tuple[Attempt, ...] = ()
    measured: tuple[Attempt, ...] = ()
    """As far as the loop came."""
    verified: str | None = None
    """The verdict on the gradient at the optimizer; None where it did not come to that."""

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {"schema": 1, **asdict(self)}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Report:
        """The report of a record."""
        fields = {name: record[name] for name in ("milestone", "passed", "verified")}
        for name in ("expected", "measured"):
            fields[name] = tuple(Attempt(**each) for each in record[name])
        return cls(off=tuple(record["off"]), **fields)

    def __str__(self) -> str:
        """Verdict, what is off, and attempt by attempt."""
        lines = [f"milestone {self.milestone}: {'passed' if self.passed else 'not yet'}"]
        lines += [f"- {each}" for each in self.off]
        if self.measured:
            lines.append("attempt  scale after, yours  engine's")
        for place, right in enumerate(self.expected if self.measured else ()):
            yours = self.measured[place] if place < len(self.measured) else None
            lines.append(f"{place + 1:7}  {'none' if yours is None else _words(yours):>18}  {_words(right)}")
        return "\n".join(lines if self.verified is None else [*lines, self.verified])


def _words(attempt: Attempt) -> str:
    return f"{attempt.scale:g}{'' if attempt.moved else ' (skipped)'}"
