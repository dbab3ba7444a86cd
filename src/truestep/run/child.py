"""The program of a process that makes one run: the job comes in on stdin, what becomes of it goes out in lines of JSON.

What the run's code writes to stdout goes to stderr. The process ends with the one that started it, however that dies.
"""

from __future__ import annotations

import atexit
import faulthandler
import io
import json
import os
import pickle
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import torch

from truestep.errors import FileError, TruestepError, UsageError
from truestep.ledger.records import counts_record, encoded
from truestep.run.building import device_of
from truestep.run.ending import is_out_of_memory
from truestep.run.parent import end_with_parent
from truestep.run.progress import Progress
from truestep.run.settings import Settings
from truestep.run.train import train
from truestep.tasks import load

BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from truestep.run.child import main; main()"
"""`python -c BOOT PATHS` is this program, with the import paths of the process that starts it, as JSON."""

_SHORTEST_SECONDS = 0.1
"""Between two reports of attempts without an evaluation: their time is the run's."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run for a process of its own; and a warm-up before it, of the same task, which leaves nothing."""

    task: str
    """As `truestep.tasks.load` takes it."""
    settings: Settings
    seed: int
    ledger: Path | None
    protocol_hash: str | None
    warmup: Settings | None
    """The warm-up's; None: no warm-up."""
    warmup_seed: int


def main() -> None:
    """Make the run of the job that stdin holds. Reports, by their "kind":

    "ready": all is imported and the task is loaded; "begun": the warm-up is over; "attempt": so far the run has come;
    "record": it has ended, failed runs included; "failed": the task could not be loaded here; "refused": an error for which
    no run is to blame. A process that ends without one of the last three has died.
    """
    reports, lifeline = _own_streams()
    if hasattr(faulthandler, "register"):  # where it hangs, if it is ended for that
        faulthandler.register(signal.SIGTERM, file=sys.stderr, all_threads=False, chain=True)
    faulthandler.enable(file=sys.stderr, all_threads=False)
    job: Job = pickle.load(lifeline)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    end_with_parent()
    _run(job, _Reports(reports))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # to take torch apart would take a second, and may crash


def _run(job: Job, tell: _Reports) -> None:
    try:
        task = load(job.task)
    except TruestepError as error:  # it could be loaded by the process that asks for the run
        lacking = error.__cause__ is not None and is_out_of_memory(error.__cause__)
        tell(kind="failed", status="out of memory" if lacking else "error", detail=error.summary, hint=error.hint)
        return
    tell(kind="ready")
    try:
        if job.warmup is not None:
            train(task, job.warmup, seed=job.warmup_seed, judged=False)
        device = device_of(job.settings.device)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)  # the warm-up's is no part of the run
        tell(kind="begun")
        record = train(
            task, job.settings, seed=job.seed, ledger=job.ledger, progress=tell.attempt, protocol_hash=job.protocol_hash
        )
    except (UsageError, FileError) as error:
        facts = {name: value if isinstance(value, (int, float)) else str(value) for name, value in error.facts.items()}
        tell(kind="refused", error=type(error).__name__, summary=error.summary, hint=error.hint, facts=facts)
    else:
        tell(kind="record", record=record.as_dict(), **peaks())


class _Reports:
    """Writes reports, one a line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._told = stream, 0.0

    def __call__(self, **report: Any) -> None:
        self._stream.write(json.dumps(report, allow_nan=False).encode("ascii") + b"\n")

    def attempt(self, made: Progress) -> None:
        """An attempt was made: each with an evaluation is told, others not too often."""
        if not made.evaluated and time.monotonic() < self._told + _SHORTEST_SECONDS:
            return
        self._told = time.monotonic()
        each = made.evaluation
        self(
            kind="attempt",
            counts=counts_record(made.counts),
            budget_attempts=made.budget_attempts,
            clocks=asdict(made.clocks),
            quality=encoded(made.quality),
            evaluation=None if each is None else asdict(each) | {"quality": encoded(each.quality)},
            to_target=None if made.to_target is None else asdict(made.to_target),
            **peaks(),
        )


def peaks() -> dict[str, int | None]:
    """The most memory of the machine that this process has held so far, and of its CUDA device since the warm-up; both by name.

    The device's is what torch had allocated for tensors at once; None without CUDA, and before it is used.
    """
    has_device: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch's stubs lack it
    on_device = torch.cuda.max_memory_allocated() if has_device else None
    return {"peak_memory_bytes": peak_bytes(), "peak_device_bytes": on_device}


def peak_bytes() -> int | None:
    """The most memory that this process has held so far; None where the system does not say.

    Not by getrusage on Linux: that counts what the parent held when it started the process.
    """
    with suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    return None


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The report's stream and the job's, out of the reach of the run's code: its stdout is its stderr, its stdin is empty.

    What the run prints is written line by line: a process that dies suddenly has then said its last words.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    reports, lifeline = os.fdopen(os.dup(1), "wb", buffering=0), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    return reports, lifeline


def _end_with(lifeline: IO[bytes]) -> None:
    """Waits for the end of a stream that lasts as long as the parent, and ends the process and its own children."""
    lifeline.read(1)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
