"""`truestep train`: one run of a task, with checkpoints; killed at any moment it goes on bit for bit with --resume."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from truestep.cli._live import Live
from truestep.cli._one_run import print_profile, print_run, resumed_lines
from truestep.cli._output import print_json, resuming, stdout_is_talk
from truestep.cli._resuming import FREE, filled
from truestep.cli._settings import settings_of
from truestep.cli._signals import Interrupted, Signals
from truestep.errors import UsageError

if TYPE_CHECKING:
    from truestep.ledger.sinks import Sink
    from truestep.run import Progress, RunRecord, Settings
    from truestep.timing.profile import Profile

_COULD_NOT_RUN = 3
_FAILED = ("error", "out of memory")


@dataclass(frozen=True, kw_only=True)
class Command:
    """Train one task under one policy and keep ledger, checkpoints and record in a folder.

    Ctrl-C and SIGTERM let the attempt end, save, and say the command that goes on; kill -9 loses what came after the last
    checkpoint. A run that diverged or stalled is a result (0); one that failed could not run (3).
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A built-in task (see truestep tasks), or FILE.py:NAME; with --resume a run's folder, which says what is not said here."""

    policy: str | None = None
    """fp32, tf32, bf16, fp16, or another of truestep's policies; None: fp32."""

    scale: str | None = None
    """The loss scale: dynamic, dynamic:INIT, static:VALUE or none; None: the policy's."""

    accumulate: int | None = None
    """Microbatches of a window; the examples of an effective update stay the task's. None: the task's."""

    clip: float | None = None
    """The largest gradient norm, in original units."""

    clock: str | None = None
    """What a tick of the schedule means: completed, attempt, epoch, examples:N or tokens:N; None: completed."""

    budget_attempts: int | None = None
    """Attempts after which the run ends, and over which the schedule is laid out; None: the task's own."""

    budget_seconds: float | None = None
    """Seconds of training after which the run ends; None: attempts alone end it."""

    evaluate_every: int | None = None
    """Examples between two evaluations; None: the task's own, else an epoch."""

    target: float | None = None
    """The quality to note; None: the task's own."""

    stop_at_target: bool = False
    """End at the target instead of at the end of the budget."""

    seed: int | None = None
    """Decides initial weights, order of the data, and all that is drawn; None: 0."""

    device: str | None = None
    """cpu, cuda or cuda:N; None: the CUDA device where there is one."""

    threads: int | None = None
    """Threads of torch's operators on the CPU. They decide on bits. None: 1."""

    out: Annotated[str | None, tyro.conf.arg(metavar="PATH")] = None
    """The run's folder; None: runs/TASK-POLICY-seedN."""

    keep_last: int | None = None
    """So many checkpoints are kept, and the best by quality; None: 2."""

    checkpoint_every: int | None = None
    """Attempts between two checkpoints; None: one at each evaluation, and at the end."""

    resume: bool = False
    """Go on from the folder's last checkpoint, or begin where there is none."""

    on_oom: Literal["stop", "accumulate"] | None = None
    """Where memory does not suffice for an attempt: stop, or split its window twice as finely and go on; None: stop."""

    max_skip_rate: float | None = None
    """Warn on stderr while more than this share of recent attempts is skipped; None: never."""

    sink: tuple[Literal["tensorboard", "wandb", "trackio", "mlflow"], ...] = ()
    """Trackers that are shown each attempt too. TensorBoard's files go to the run's folder; a project is named as the task."""

    profile: bool = False
    """Say where the time of an attempt goes: after 3 attempts one is traced (trace.json in the folder, for ui.perfetto.dev or
    chrome://tracing), and 5 are timed, stage by stage."""

    time_stages: bool = False
    """Write into each line of the ledger where its attempt's seconds went: perf/seconds_by_stage."""

    json: bool = False
    """Print one JSON document on stdout instead of the table."""

    def run(self) -> int:
        """Open the folder, train, print; 0, 3 for a run that failed, 130 or 143 after Ctrl-C or SIGTERM."""
        with stdout_is_talk(self.json), Signals() as signals:  # a task's own prints are no part of the document
            try:
                path, record, has_target, profile = filled(self)._trained(signals)
            except Interrupted as interruption:
                self._say_how_to_go_on()
                return interruption.code
        stopped = record.status == "stopped"
        code = signals.code if stopped and signals.code else _COULD_NOT_RUN if record.status in _FAILED else 0
        if self.json:
            print_json(self._document(path, record, code) | {"profile": None if profile is None else profile.record()})
        else:
            print_run(path, record, has_target=has_target)
            if profile is not None:
                print_profile(profile.table)
        if stopped or record.status in _FAILED:
            self._say_how_to_go_on()
        return code

    def _trained(self, signals: Signals) -> tuple[Path, RunRecord, bool, Profile | None]:
        """The run's folder, its record, whether there was a target, and the profile that was asked for."""
        from truestep.ledger import SkipAlarm  # noqa: PLC0415  # --help must not wait for torch
        from truestep.run import Saving, train  # noqa: PLC0415 - --help does not wait for it
        from truestep.run.building import device_of  # noqa: PLC0415 - --help does not wait for it
        from truestep.run.folder import CHECKPOINTS, LEDGER, RunFolder, asked_of  # noqa: PLC0415 - --help does not wait for it
        from truestep.tasks import load  # noqa: PLC0415 - --help does not wait for it

        assert self.seed is not None  # filled, as all of them
        assert self.keep_last is not None
        settings, task = settings_of(vars(self)), load(self.task)
        path = self._out(settings)
        has_target = settings.target is not None or task.target is not None
        saving = Saving(folder=path / CHECKPOINTS, keep_last=self.keep_last, every_attempts=self.checkpoint_every)
        alarm = None if self.max_skip_rate is None else SkipAlarm(limit=self.max_skip_rate)
        free = {name: getattr(self, name) for name in FREE}
        asked = asked_of(self.task, settings, seed=self.seed, device=str(device_of(self.device)), free=free)
        folder = RunFolder.opened(path, asked, resume=self.resume)
        if folder.finished is not None:
            print(f"{path} is finished ({folder.finished.status}); nothing is left to do", file=sys.stderr)
            return path, folder.finished, has_target, None
        try:
            with Live() as live, self._profiled(folder.path) as profile:

                def show(progress: Progress) -> None:
                    signals.has_begun = True
                    live.show(progress)

                record = train(
                    task,
                    settings,
                    seed=self.seed,
                    ledger=path / LEDGER,
                    sinks=self._sinks(path, task.name),
                    alarm=alarm,
                    progress=show,
                    stop=lambda: signals.code is not None,
                    checkpoints=saving,
                    resume=folder.begun,
                    resumed=lambda restored: live.say(*resumed_lines(restored)),
                )
        except UsageError:  # what only building the run could tell
            folder.withdraw()
            raise
        folder.keep(record)
        return path, record, has_target, profile

    def _profiled(self, folder: Path) -> AbstractContextManager[Profile | None]:
        from truestep.run.folder import TRACE  # noqa: PLC0415 - --help does not wait for it
        from truestep.timing.profile import profile  # noqa: PLC0415 - --help does not wait for it

        return profile(folder / TRACE) if self.profile else nullcontext()

    def _sinks(self, path: Path, project: str) -> list[Sink]:
        from truestep.ledger import sinks  # noqa: PLC0415 - --help does not wait for it

        makers: dict[str, Callable[[], Sink]] = {
            "tensorboard": lambda: sinks.TensorBoard(path / "tensorboard"),
            "wandb": lambda: sinks.WandB(project=project),
            "trackio": lambda: sinks.Trackio(project),
            "mlflow": lambda: sinks.MLflow(project),
        }
        return [makers[name]() for name in dict.fromkeys(self.sink)]

    def _out(self, settings: Settings) -> Path:
        from truestep.run.folder import folder_of  # noqa: PLC0415 - --help does not wait for it

        if self.out is None:
            assert self.seed is not None
            return folder_of(self.task, settings.name, seed=self.seed)
        if not self.out:
            raise UsageError("--out '' is no folder", hint="name one, or leave --out away")
        return Path(self.out)

    def _say_how_to_go_on(self) -> None:
        """On stderr, the very command that goes on."""
        print(f"to go on:\n  {self.command()}", file=sys.stderr)

    def command(self) -> str:
        """The shell's line that resumes this run.

        >>> Command(task="my tasks.py:Line", policy="fp16", stop_at_target=True).command()
        "truestep train 'my tasks.py:Line' --policy fp16 --stop-at-target --resume"
        """
        return resuming("train", self, self.task)

    def _document(self, path: Path, record: RunRecord, code: int) -> dict[str, Any]:
        """The whole run as one JSON value."""
        from truestep.run.folder import settings_in  # noqa: PLC0415 - --help does not wait for it

        return {
            "schema": 1,
            "settings": settings_in(path),
            "run": record.as_dict(),
            "out": str(path),
            "resume": None if code == 0 else self.command(),
            "exit_code": code,
        }
