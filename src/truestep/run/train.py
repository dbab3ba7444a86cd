"""One run of a task: windows in, attempts made, quality watched, a record out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from truestep.checkpoint import Restored
from truestep.engine.outcome import Outcome
from truestep.engine.randomness import Drawn, own_random_state
from truestep.errors import FileError, SkipLimitError, UsageError
from truestep.ledger import Alert, Ledger, SkipAlarm
from truestep.ledger.sinks import Sink
from truestep.run.building import build, device_of, on_device
from truestep.run.ending import AttemptOutOfMemoryError, ending_of, is_out_of_memory
from truestep.run.isolation import own_threads
from truestep.run.progress import Progress
from truestep.run.record import RunRecord
from truestep.run.saving import Saver, Saving
from truestep.run.settings import Settings
from truestep.run.state import Run
from truestep.tasks import Task
from truestep.tasks.checking import demand_task


def train(
    task: Task,
    settings: Settings,
    *,
    seed: int,
    ledger: Path | None = None,
    sinks: Sequence[Sink] = (),
    alarm: SkipAlarm | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    protocol_hash: str | None = None,
    checkpoints: Saving | None = None,
    resume: bool = False,
    resumed: Callable[[Restored | None], None] | None = None,
    judged: bool = True,
) -> RunRecord:
    """Run `task` once and return its record, however it ended. The same seed starts from the same weights in the same order.

    A run that was killed at any moment and is resumed from its checkpoints goes on bit for bit: parameters, optimizer, loss
    scale, counts, schedule, random state, place in the data. Its clocks go on too; what was done since the last checkpoint is
    waste, in the clocks and in the ledger, and counts as nothing else.

    Args:
        ledger: A new file for the run's outcomes, or, on `resume`, the one to go on in; None keeps none.
        sinks, alarm: The ledger's: trackers that are shown each attempt, and what watches the skip rate.
        progress: Called after each attempt; its time is charged to the train clock.
        stop: Asked after each attempt; true ends the run with the status "stopped", saved.
        protocol_hash: The comparison that the run belongs to.
        checkpoints: Where and when the run is saved; None saves nothing.
        resume: Go on from the newest whole one of `checkpoints`, or begin where there is none.
        resumed: On `resume`, told what was restored before the first attempt; None: nothing was there.
        judged: Whether a run that came to its end is judged on the test split, once; a warm-up, say, is not.

    Raises:
        UsageError: what was asked, or what the task consists of, cannot be run; nothing has been trained then.
        FileError: the ledger or a checkpoint cannot be written, or belongs to another run, for which no candidate is to blame.

    >>> from truestep.tasks import Digits
    >>> record = train(Digits(), Settings(budget_attempts=10), seed=0)
    >>> record.status, record.counts.completed, [place.examples for place in record.evaluations]
    ('budget', 10, [320, 640])
    """
    demand_task(task)
    _demand_whole(resume=resume, saved=checkpoints is not None, fed=bool(sinks) or alarm is not None, kept=ledger is not None)
    device = device_of(settings.device)
    if checkpoints is not None:  # the task's code may change the working directory
        checkpoints = replace(checkpoints, folder=checkpoints.folder.absolute())
    path = None if ledger is None else ledger.absolute()
    kept = {"path": path, "given": ledger, "protocol_hash": protocol_hash, "sinks": sinks, "alarm": alarm, "resume": resume}
    with own_threads(settings.threads), own_random_state(device):
        run = Run(task, settings, seed=seed, device=device, judged=judged)
        with closing(_attempts(run, kept, checkpoints, resumed, stop)) as attempts:
            for made in attempts:
                if progress is not None:
                    progress(made)
                if stop is not None and run.status is None and stop():
                    run.end("stopped", "the caller stopped the run")
        return run.record(protocol_hash)


def _demand_whole(*, resume: bool, saved: bool, fed: bool, kept: bool) -> None:
    """UsageError where one thing is asked for without the other that it needs."""
    if resume and not saved:
        raise UsageError("a run cannot be resumed without its checkpoints", hint="give checkpoints=Saving(folder=...)")
    if fed and not kept:
        raise UsageError("sinks and alarm are fed by a ledger, and there is none", hint="say where it goes: ledger=Path(...)")


def _attempts(
    run: Run,
    kept: Mapping[str, Any],
    saving: Saving | None,
    resumed: Callable[[Restored | None], None] | None,
    stop: Callable[[], bool] | None,
) -> Generator[Progress]:
    """The run's attempts, one at each step; what the task's code raises ends the run and is told by its status."""
    resume = kept["resume"]
    saver = None
    try:
        run.setup = build(run.task, run.settings, seed=run.seed, device=run.device)
        if run.settings.threads is not None:
            torch.set_num_threads(run.settings.threads)  # the declared number, whatever the task's own code has set
        saver = None if saving is None else Saver(saving, run, resume=resume)
        if saver is not None and resume:
            restored = saver.restore()
            if resumed is not None:
                resumed(restored)
        with run.keeping(**kept) as ledger:
            run.is_open = True
            if ledger is not None:
                ledger.go_on_after(run.ready.update.counts.attempts)
            run.watch.turn("train")
            over = resume and run.is_over()
            while not over:
                outcome, alert = _attempt(run, ledger, may_fail=saver is not None or run.settings.on_oom == "accumulate")
                evaluated = run.advance(run.feed.portion.examples)
                run.feed.move_on()
                if evaluated:
                    run.evaluate()
                if saver is not None:
                    saver.after_attempt(evaluated=evaluated)
                    run.before = Drawn.now(run.device)  # workers that a signal ends may say so between two attempts, too
                yield run.progress(outcome, alert, evaluated=evaluated)
                over = run.is_over()
        run.feed.close()
        if saver is not None:
            saver.finish()
        run.before = None
        run.test()
    except FileError:  # the ledger's or a checkpoint's: no candidate is to blame
        raise
    except (Exception, SystemExit) as error:  # the task's code may raise anything, and may ask the process to end
        if isinstance(error, UsageError) and not run.is_open:  # it is what was asked, and afterwards what the task did
            raise
        run.end(*ending_of(error, run.task))
        if saver is not None and run.can_take_back():
            _saved_before_attempt(run, saver, stop)


def _saved_before_attempt(run: Run, saver: Saver, stop: Callable[[], bool] | None) -> None:
    """Save a run whose attempt failed where its last whole one left it, and call it stopped where that was asked for.

    A signal that asks for it may have ended the data's workers too, for which no task is to blame.
    """
    run.feed.close()
    run.take_back()
    saver.finish()
    if stop is not None and stop():
        run.end("stopped", f"the caller stopped the run, and the attempt under way failed: {run.detail}")


def _attempt(run: Run, ledger: Ledger | None, *, may_fail: bool) -> tuple[Outcome, Alert | None]:
    """Attempt one update and keep its outcome, that of the attempt that was one skip too many included."""
    limit: SkipLimitError | None = None
    if may_fail and run.before is None:  # else it stands since the attempt before, as a checkpoint of that would have it
        run.before = Drawn.now(run.device)
    try:
        outcome = _fitted(run)
    except SkipLimitError as error:  # its outcome is kept before it ends the run
        limit, outcome = error, error.outcome
    run.before = None
    alert = None if ledger is None else ledger.record(outcome)
    if limit is not None:
        raise limit
    return outcome, alert


def _fitted(run: Run) -> Outcome:
    """The outcome of the window at the run's place in the data, split so that it fits memory, where the settings say so.

    A window that did not fit is attempted anew from the random state and the place that it had: from there on the run is
    bit for bit one that was resumed with the finer split.
    """
    while True:
        window = run.feed.window()
        try:
            return run.ready.update(on_device(window, run.device))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            finer = run.feed.finer()
            if run.settings.on_oom != "accumulate" or finer is None:
                raise AttemptOutOfMemoryError(examples=run.feed.largest, finer=finer) from error
        gc.collect()  # the error has gone by now, and with it the frames that held the graph
        if run.device.type == "cuda":
            torch.cuda.empty_cache()
        run.notes.append(
            f"memory did not suffice for attempt {run.ready.update.counts.attempts + 1} with "
            f"accumulate={len(window)}: accumulate={finer} from there on"
        )
        run.take_back()
        run.feed.go_to(run.feed.position, microbatches=finer)
