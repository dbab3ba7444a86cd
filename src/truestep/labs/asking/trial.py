"""A program: runs the `train` of a learner's file on the task of a milestone, and writes the report where it was told to.

    python -m truestep.labs.asking.trial FILE MILESTONE REPORT

The file is code that the learner has chosen to run: it may do whatever the user may. It has a process of its own so that what it
breaks, prints or ends is no part of the asking.
"""

from __future__ import annotations

import json
import math
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from truestep.engine.clip import ClipNorm
from truestep.engine.scale import LossScale
from truestep.engine.update import Update
from truestep.labs.asking.judging import Loop, judged
from truestep.labs.asking.milestones import ATTEMPTS, BROKEN, INTERVAL, LIMIT, RATE, SCALE, Attempt, Milestone, Report, milestone
from truestep.verification.result import Verification
from truestep.verification.verify import verify

Batch = tuple[Tensor, Tensor]
Train = Callable[..., object]
EXAMPLES, FEATURES = 8, 3


class Task:
    """The setting of a milestone, always the same: least squares from weights of 0."""

    def __init__(self) -> None:
        self.model = nn.Linear(FEATURES, 1)
        for parameter in self.model.parameters():
            nn.init.zeros_(parameter)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=INTERVAL)
        self.formats: set[str] = set()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean squared error of a batch."""
        out = model(batch[0])
        self.formats.add(str(out.dtype).removeprefix("torch."))
        return nn.functional.mse_loss(out.float(), batch[1])

    def weights(self) -> tuple[float, ...]:
        """All of them."""
        return tuple(torch.cat([each.detach().flatten() for each in self.model.parameters()]).tolist())

    def seen(self, attempts: list[Attempt]) -> Loop:
        """What there is to tell at the end."""
        return Loop(attempts=tuple(attempts), weights=self.weights(), formats=frozenset(self.formats))


class Watched(list[Any]):
    """The windows; going through them notes the state after each."""

    def __init__(self, windows: list[Any], task: Task) -> None:
        super().__init__(windows)
        self.task = task
        self.attempts: list[Attempt] = []

    def __iter__(self) -> Iterator[Any]:
        """Each window, and after it what has changed."""
        for window in super().__iter__():
            before = self.task.weights()
            yield window
            after = self.task.weights()
            self.attempts.append(Attempt(scale=self.task.scaler.get_scale(), moved=after != before))


def windows(microbatches: int) -> list[list[Batch]]:
    """Of a known relation without noise; targets grow, so that the clip bites in some windows and not in others."""
    draws = torch.Generator().manual_seed(0)
    made = []
    for place in range(ATTEMPTS):
        x = torch.randn(microbatches * EXAMPLES, FEATURES, generator=draws)
        y = (x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3) * (0.1 if place % 2 else 1.5)
        made.append(list(zip(torch.split(x, EXAMPLES), torch.split(y, EXAMPLES), strict=True)))
    x, y = made[BROKEN][-1]
    made[BROKEN][-1] = (x.index_fill(0, torch.tensor([0]), math.inf), y)
    return made


def of_the_engine(goal: Milestone) -> Loop:
    """The same windows by the engine, whose scale halves at every overflow, as the scaler's does."""
    task, attempts = Task(), []
    scale = LossScale.dynamic(SCALE, interval=INTERVAL)
    update = Update(
        task.model, task.optimizer, loss=task.loss, policy="fp16", scale=scale, clip=ClipNorm(LIMIT), incurable="backoff"
    )
    for window in windows(goal.microbatches):
        outcome = update(window)
        attempts.append(Attempt(scale=update.scale.value, moved=outcome.completed))
    return task.seen(attempts)


def of_the_learner(train: Train, goal: Milestone) -> Loop:
    """The whole loop, once."""
    task = Task()
    given = Watched([window if goal.microbatches > 1 else window[0] for window in windows(goal.microbatches)], task)
    train(task.model, task.optimizer, task.scaler, task.loss, given, LIMIT)
    return task.seen(given.attempts)


def verified(train: Train, goal: Milestone) -> Verification:
    """The gradient at the optimizer in each window that is finite, beside the float32 full batch's."""
    task = Task()

    def step(window: list[Batch]) -> None:
        task.optimizer.zero_grad()  # what verify itself left is not the loop's
        train(task.model, task.optimizer, task.scaler, task.loss, [window if goal.microbatches > 1 else window[0]], LIMIT)

    finite = [window for place, window in enumerate(windows(goal.microbatches)) if place != BROKEN]
    return verify(
        step, finite, model=task.model, optimizer=task.optimizer, loss=task.loss, clip=ClipNorm(LIMIT), scale=task.scaler
    )


def tried(path: Path, goal: Milestone) -> Report:
    """Runs the file; what it raises is told with the lines of the file that led there."""
    try:
        train = runpy.run_path(str(path), run_name="learner").get("train")
        if not callable(train):
            off = "the file defines no function `train`: begin with the file that --milestone prints"
            return Report(milestone=goal.name, passed=False, off=(off,))
        engine, yours = of_the_engine(goal), of_the_learner(train, goal)
        return judged(goal, yours, engine, verified(train, goal) if yours.attempts else None)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f"line {each.lineno}: {each.line}" for each in frames if each.filename == str(path)]
        raised = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no words'}"
        return Report(milestone=goal.name, passed=False, off=(" <- ".join([raised, *reversed(lines)]),))


if __name__ == "__main__":
    torch.set_num_threads(1)
    report = tried(Path(sys.argv[1]), milestone(sys.argv[2]))
    Path(sys.argv[3]).write_text(json.dumps(report.record()), encoding="utf-8")
