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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

import truestep
from truestep.engine.clip import ClipNorm
from truestep.engine.scale import LossScale
from truestep.engine.update import Update
from truestep.labs.asking.judging import Loop, judged
from truestep.labs.asking.milestones import ATTEMPTS, BROKEN, INTERVAL, LIMIT, RATE, SCALE, Attempt, Milestone, Report, milestone
from truestep.labs.asking.watching import Scaler, Watched, misplaced, weights
from truestep.run.parent import end_with_parent
from truestep.verification.result import Verification
from truestep.verification.verify import verify

Batch = tuple[Tensor, Tensor]
Train = Callable[..., object]
EXAMPLES, FEATURES = 8, 3
BEGUN = {"begun": True}
"""What stands in place of the report while the learner's file runs."""


class Theirs(Exception):
    """What the learner's file raised, as its cause; the message says which call of the scaler is why, where one is."""


class Task:
    """The setting of a milestone, always the same: least squares from weights of 0."""

    def __init__(self) -> None:
        self.model = nn.Linear(FEATURES, 1)
        for parameter in self.model.parameters():
            nn.init.zeros_(parameter)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.scaler = Scaler(SCALE, INTERVAL)
        self.formats: set[str] = set()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean squared error of a batch."""
        out = model(batch[0])
        self.formats.add(str(out.dtype).removeprefix("torch."))
        return nn.functional.mse_loss(out.float(), batch[1])

    def seen(self, attempts: Sequence[Attempt], left: Sequence[int] = ()) -> Loop:
        """What there is to tell at the end."""
        return Loop(attempts=tuple(attempts), weights=weights(self.model), formats=frozenset(self.formats), left=tuple(left))


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
    given = Watched([_given(window, goal) for window in windows(goal.microbatches)], task.model, task.scaler)
    with _theirs(task.scaler):
        train(task.model, task.optimizer, task.scaler, task.loss, given, LIMIT)
    return task.seen(given.attempts, given.left)


def verified(train: Train, goal: Milestone) -> Verification:
    """The gradient at the optimizer in each window that is finite, beside the float32 full batch's."""
    task = Task()

    def step(window: list[Batch]) -> None:
        with _theirs(task.scaler):
            train(task.model, task.optimizer, task.scaler, task.loss, [_given(window, goal)], LIMIT)

    finite = [window for place, window in enumerate(windows(goal.microbatches)) if place != BROKEN]
    return verify(
        step, finite, model=task.model, optimizer=task.optimizer, loss=task.loss, clip=ClipNorm(LIMIT), scale=task.scaler
    )


def _given(window: list[Batch], goal: Milestone) -> list[Batch] | Batch:
    return window if goal.microbatches > 1 else window[0]


@contextmanager
def _theirs(scaler: Scaler | None = None) -> Iterator[None]:
    """Inside, the learner's code runs; what it raises comes out as Theirs, all but a fault of truestep that it has met."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, ImportError) and _inside_truestep(error):
            raise
        refused = isinstance(error, (RuntimeError, AssertionError)) and scaler is not None
        raise Theirs((misplaced(scaler.calls) if refused and scaler is not None else None) or "") from error


def _inside_truestep(error: BaseException) -> bool:
    """Whether it was raised by a line of truestep."""
    frames = [each.filename for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<")]
    return Path(frames[-1]).is_relative_to(Path(truestep.__file__).parent) and frames[-1] != __file__


def tried(path: Path, goal: Milestone) -> Report:
    """Runs the file; what it raises is told with the lines of the file that led there, and what truestep raises goes on."""
    try:
        with _theirs():
            train = runpy.run_path(str(path), run_name="learner").get("train")
        if not callable(train):
            off = "the file defines no function `train`: begin with the file that --milestone prints"
            return Report(milestone=goal.name, passed=False, off=(off,))
        engine, yours = of_the_engine(goal), of_the_learner(train, goal)
        return judged(goal, yours, engine, verified(train, goal) if yours.attempts else None)
    except Theirs as theirs:
        return Report(milestone=goal.name, passed=False, off=(_told(theirs, path),))


def _told(theirs: Theirs, path: Path) -> str:
    """Why, where that is known, and what was raised from which lines."""
    error = theirs.__cause__
    assert error is not None
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"line {each.lineno}: {each.line}" for each in frames if each.filename == str(path)]
    raised = " <- ".join([raised_words(error), *reversed(lines)])
    return f"{theirs} ({raised})" if str(theirs) else raised


def raised_words(error: BaseException) -> str:
    """Its kind and its first line."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no words'}"


def main(file: Path, name: str, report: Path) -> None:
    """Writes the report of a file, or that truestep itself has failed."""
    end_with_parent()
    torch.set_num_threads(1)
    report.write_text(json.dumps(BEGUN), encoding="utf-8")
    try:
        record = tried(file, milestone(name)).record()
    except Exception as error:
        traceback.print_exc()
        record = {"failed": raised_words(error)}
    report.write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
