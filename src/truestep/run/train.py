"""One run of a task: windows in, attempts made, quality watched, a record out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from truestep.engine.windows import Window
from truestep.errors import FileError, SkipLimitError, UsageError
from truestep.ledger import Ledger
from truestep.run.building import Setup, build, device_of, moved
from truestep.run.ending import ending_of
from truestep.run.isolation import own_random_state, own_threads
from truestep.run.record import RunRecord
from truestep.run.sampling import order, windows_of
from truestep.run.settings import Settings
from truestep.run.state import Progress, Run
from truestep.tasks import Task
from truestep.tasks.checking import demand_task


def train(
    task: Task,
    settings: Settings,
    *,
    seed: int,
    ledger: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    protocol_hash: str | None = None,
) -> RunRecord:
    """Run `task` once and return its record, however it ended. The same seed starts from the same weights in the same order.

    Args:
        ledger: A new file for the run's outcomes; None keeps none.
        progress: Called after each attempt; its time is charged to the train clock.
        stop: Asked after each attempt; true ends the run with the status "stopped".
        protocol_hash: The comparison that the run belongs to.

    Raises:
        UsageError: what was asked, or what the task consists of, cannot be run; nothing has been trained then.
        FileError: the ledger cannot be written, for which no candidate is to blame.

    >>> from truestep.tasks import Digits
    >>> record = train(Digits(), Settings(budget_attempts=10), seed=0)
    >>> record.status, record.counts.completed, [place.examples for place in record.evaluations]
    ('budget', 10, [320, 640])
    """
    demand_task(task)
    device = device_of(settings.device)
    with own_threads(settings.threads), own_random_state(device):
        run = Run(task, settings, seed=seed, device=device)
        with closing(_attempts(run, ledger, protocol_hash)) as attempts:
            for made in attempts:
                if progress is not None:
                    progress(made)
                if stop is not None and run.status is None and stop():
                    run.end("stopped", "the caller stopped the run")
                    break
        return run.record(protocol_hash)


def _attempts(run: Run, path: Path | None, protocol_hash: str | None) -> Generator[Progress]:
    """The run's attempts, one at each step; what the task's code raises ends the run and is told by its status."""
    try:
        run.setup = setup = build(run.task, run.settings, seed=run.seed, device=run.device)
        if run.settings.threads is not None:
            torch.set_num_threads(run.settings.threads)  # the declared number, whatever the task's own code has set
        with run.keeping(path, protocol_hash) as ledger:
            run.watch.turn("train")
            for parts, ends_epoch in _windows(setup, seed=run.seed):
                window = Window(moved(run.task.microbatch(setup.splits.train, part), run.device) for part in parts)
                window.ends_epoch = ends_epoch
                _attempt(setup, window, ledger)
                if run.advance(sum(map(len, parts))):
                    run.evaluate()
                yield run.progress()
                if run.is_over():
                    break
        run.test()
    except FileError:  # the ledger's: no candidate is to blame
        raise
    except UsageError as error:  # before the first attempt it is what was asked, afterwards what the task did
        if run.setup is None:
            raise
        run.end(*ending_of(error, run.task))
    except (Exception, SystemExit) as error:  # the task's code may raise anything, and may ask the process to end
        run.end(*ending_of(error, run.task))


def _windows(setup: Setup, *, seed: int) -> Iterator[tuple[list[Tensor], bool]]:
    """The indices of each window's microbatches, epoch after epoch, and whether the window ends its epoch."""
    plan = setup.plan
    for epoch in itertools.count():
        indices = order(len(setup.splits.train), seed=seed, epoch=epoch)
        *windows, last = windows_of(indices, batch=plan.batch, microbatches=plan.microbatches)
        yield from ((window, False) for window in windows)
        yield last, True


def _attempt(setup: Setup, window: Window[Any], ledger: Ledger | None) -> None:
    """Attempt one update and keep its outcome, that of the attempt that was one skip too many included."""
    limit: SkipLimitError | None = None
    try:
        outcome = setup.update(window)
    except SkipLimitError as error:  # its outcome is kept before it ends the run
        limit, outcome = error, error.outcome
    if ledger is not None:
        ledger.record(outcome)
    if limit is not None:
        raise limit
