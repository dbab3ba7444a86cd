"""`truestep compare`: race precisions to a quality under a fixed protocol, and say what may be said of the outcome."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from truestep.cli._output import print_json, resuming, stdout_is_talk
from truestep.cli._racing import shown
from truestep.cli._tables import print_tables
from truestep.errors import FileError, UsageError

if TYPE_CHECKING:
    from truestep.compare import Summary
    from truestep.compare.declare import Asked
    from truestep.compare.folder import Folder
    from truestep.compare.race import Event
    from truestep.compare.target import Pilot
    from truestep.tasks import Task

_INTERRUPTED, _TERMINATED = 130, 143


class _Terminated(KeyboardInterrupt):
    """SIGTERM, taken as Ctrl-C is."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Race precisions to a target quality on one task: same weights, data order and evaluations for all, by seed.

    The first candidate is the baseline. A candidate is a policy and, in quotes, what it sets differently, for example
    'fp16 scale=static:1024 accumulate=8 clip=1 clock=attempt'. 'fp32 again' runs the baseline twice and shows the noise.
    Each run has a process of its own: one that crashes or hangs is a result, and the others go on.
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A built-in task (see truestep tasks), or FILE.py:NAME."""

    candidates: tuple[str, ...] = ("fp32", "bf16", "fp16")
    """What races, the baseline first."""

    seeds: int = 7
    """How many seeds, counted from 0. A claim takes 6 for one candidate against the baseline, 7 for two or three."""

    target: float | None = None
    """The quality to reach; None: the task's own."""

    pilot: int | None = None
    """Set the target by a pilot first: so many runs of the baseline, in float32, on seeds of their own (100 and up), to the end \
of the budget. The target is the median of their best qualities, made easier by the slack."""

    slack: float | None = None
    """With --pilot: how much easier, in the unit of the quality; None: a hundredth of the median."""

    budget_attempts: int | None = None
    """Attempts after which a run ends, and over which the schedule is laid out; None: the task's own."""

    budget_seconds: float | None = None
    """Seconds of training after which a run ends; None: attempts alone end it."""

    evaluate_every: int | None = None
    """Examples between two evaluations; None: the task's own, else an epoch."""

    to_the_end: bool = False
    """Go on to the end of the budget after the target, for final qualities of equal budgets."""

    margin_examples: float = 0.05
    """The share of additional examples to the target that counts as none."""

    margin_quality: float | None = None
    """The loss of final quality that counts as none; None: a hundredth of the target."""

    alpha: float = 0.05
    """The chance of any false claim."""

    fail_if: tuple[str, ...] = ()
    """Exit with 1 where one of these holds for a candidate, or cannot be told: quality (not shown to be within its margin), \
quality=inferior (shown to be beyond it), examples and examples=inferior (likewise, to the target), skip-rate>1%, time>1.1x, \
reach<100%."""

    threads: int = 1
    """Threads of torch's operators on the CPU."""

    jobs: int = 1
    """Runs at once. More than 1 contend for the machine, and the report says so."""

    timeout: float | None = None
    """Seconds of wall time after which a run is ended and counts as failed; None: none is."""

    out: Path | None = None
    """The folder for records, ledgers and report; None: truestep-TASK."""

    resume: bool = False
    """Go on with an interrupted comparison: runs that have ended are kept, failed ones too."""

    rerun_failed: bool = False
    """With --resume: run again what crashed, timed out, lacked memory or ended in an error; earlier seconds are waste."""

    json: bool = False
    """Print one JSON document on stdout instead of tables."""

    def run(self) -> int:
        """Declare, race, judge, write, print; 0, 1 by --fail-if, 130 or 143 after Ctrl-C or SIGTERM."""
        try:
            with stdout_is_talk(self.json):  # a task's own prints are no part of the document
                folder, summary, report, code = self._compared()
        except _Terminated:  # in a pilot: nothing is there to be judged
            return _TERMINATED
        if self.json:
            print_json(_document(folder, summary, code))
        else:
            print_tables(folder, summary, report)
        if code in (_INTERRUPTED, _TERMINATED):
            self._say_how_to_go_on(_kept(folder))
        return code

    def _compared(self) -> tuple[Folder, Summary, Path, int]:
        from truestep.compare import summarize  # noqa: PLC0415  # --help must not wait for torch
        from truestep.compare.declare import declare  # noqa: PLC0415 - --help does not wait for it
        from truestep.compare.exports import export  # noqa: PLC0415 - --help does not wait for it
        from truestep.compare.folder import Folder  # noqa: PLC0415 - --help does not wait for it
        from truestep.pages.comparison import write  # noqa: PLC0415 - --help does not wait for it

        if self.rerun_failed and not self.resume:
            raise UsageError("--rerun-failed goes on with what is there", hint="write --resume --rerun-failed")
        if self.slack is not None and self.pilot is None:
            raise UsageError("--slack is a pilot's", hint="write --pilot 10 --slack X, or declare the target with --target")
        task, protocol = declare(self._asked(), pilot=self._piloted())
        folder = Folder.opened(self._out(), protocol, resume=self.resume)
        try:
            code = self._raced(task, folder)
            summary = summarize(protocol, folder.records)
            folder.write_summary(summary)
            export(folder.path, protocol, folder.records, summary)
            return folder, summary, write(folder.path), code or summary.exit_code
        except (FileError, KeyboardInterrupt):  # a full disk, say, or Ctrl-C in the report: what is kept can be gone on from
            self._say_how_to_go_on(_kept(folder))
            raise

    def _raced(self, task: Task, folder: Folder) -> int:
        """Run what is missing; 0, or what Ctrl-C or SIGTERM makes the exit code: the finished runs are judged all the same."""
        from truestep.compare.race import race  # noqa: PLC0415 - --help does not wait for it

        try:
            with _terminable(), shown() as progress:
                race(task, folder, rerun_failed=self.rerun_failed, progress=progress)
        except KeyboardInterrupt as interruption:
            return _TERMINATED if isinstance(interruption, _Terminated) else _INTERRUPTED
        return 0

    def _piloted(self) -> Pilot | None:
        """What the pilot has found, where one is asked for; ended early, it says how to go on."""
        if self.pilot is None:
            return None
        from truestep.compare import pilot  # noqa: PLC0415 - --help does not wait for it

        has_begun = False

        def hear(event: Event) -> None:
            nonlocal has_begun
            has_begun = True
            progress(event)

        try:
            with _terminable(), shown() as progress:
                return pilot.piloted(
                    self._asked(),
                    self._out(),
                    runs=self.pilot,
                    slack=self.slack,
                    resume=self.resume,
                    rerun_failed=self.rerun_failed,
                    progress=hear,
                )
        except (FileError, KeyboardInterrupt):
            if has_begun:
                self._say_how_to_go_on(f"the pilot's finished runs are kept in {self._out() / pilot.FOLDER}")
            raise

    def _asked(self) -> Asked:
        from truestep.compare.declare import Asked  # noqa: PLC0415 - --help does not wait for it

        asked = {field.name: getattr(self, field.name) for field in fields(Asked) if field.name != "is_pilot"}
        return Asked(**asked | {"seeds": range(self.seeds)})

    def _out(self) -> Path:
        return self.out or Path(f"truestep-{self.task.rpartition(':')[2]}")

    def _say_how_to_go_on(self, kept: str) -> None:
        """On stderr, what is kept and the very command that runs what is missing; and the one that was asked, if it does more."""
        print(f"{kept}; to go on:", file=sys.stderr)
        print(f"  {self.command()}", file=sys.stderr)
        if self.rerun_failed:
            print("to run again what has failed, too, this time included:", file=sys.stderr)
            print(f"  {self.command(rerun_failed=True)}", file=sys.stderr)

    def command(self, *, rerun_failed: bool = False) -> str:
        """The shell's line that resumes this comparison.

        >>> Command(task="digits", candidates=("fp32", "fp16 clip=1"), to_the_end=True).command()
        "truestep compare digits --candidates fp32 'fp16 clip=1' --to-the-end --resume"
        """
        return resuming("compare", replace(self, rerun_failed=rerun_failed), self.task)


def _document(folder: Folder, summary: Summary, code: int) -> dict[str, Any]:
    """The whole comparison as one JSON value."""
    return {
        "schema": 1,
        "protocol": folder.protocol.as_dict(),
        "protocol_hash": folder.protocol.hash,
        "runs": folder.records,
        "summary": summary.as_dict(),
        "out": str(folder.path),
        "exit_code": code,
    }


def _kept(folder: Folder) -> str:
    planned = len(folder.protocol.candidates) * len(folder.protocol.seeds)
    return f"{len(folder.records)} of {planned} runs are kept in {folder.path}"


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the run under way as Ctrl-C does."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
