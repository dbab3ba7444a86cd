"""What `truestep train` is asked where not all is said: a run's folder that is gone on with says the rest, else the defaults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from truestep.errors import RecordError, UsageError


class Command(Protocol):
    """What is asked of here: a task, or the folder of a run that is to be gone on with."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def task(self) -> str:
        """A built-in one, FILE.py:NAME, or a run's folder."""

    @property
    def resume(self) -> bool:
        """Whether to go on."""

    @property
    def out(self) -> str | None:
        """The run's folder, where it was said."""


C = TypeVar("C", bound=Command)

DEFAULTS: dict[str, Any] = {"policy": "fp32", "clock": "completed", "seed": 0, "threads": 1, "keep_last": 2, "on_oom": "stop"}
"""What holds where neither the command nor a run's folder says it."""
_CANDIDATE = ("policy", "scale", "accumulate", "clip", "clock")
_SETTINGS = ("seed", "budget_attempts", "budget_seconds", "evaluate_every", "target", "stop_at_target", "threads", "device")
FREE = ("keep_last", "checkpoint_every", "on_oom", "max_skip_rate", "sink", "time_stages")
"""Options that may be others from one process of a run to the next."""


def filled(command: C) -> C:
    """The command with every option that was not said as the run in its folder has it.

    Raises:
        UsageError: a run's folder that is not to be gone on with, an --out beside it, or a task's file that is not here.
        RecordError: the folder's settings cannot be read.
    """
    folder = _folder(command)
    if folder is None:
        known: dict[str, Any] = {}
    elif not command.resume:
        hint = f"truestep train {folder} --resume goes on with it"
        raise UsageError(f"{folder} is the folder of a run, and no task", hint=hint)
    elif command.out is not None and Path(command.out).resolve() != folder.resolve():
        hint = "leave --out away: a run goes on in its own folder"
        raise UsageError(f"--out {command.out} is another folder than {folder}, which is to be gone on with", hint=hint)
    else:
        known = _options_in(folder)
    unsaid: dict[str, Any] = {name: value for name, value in (DEFAULTS | known).items() if not _is_said(getattr(command, name))}
    return replace(command, **unsaid, task=known.get("task", command.task))


def _is_said(value: Any) -> bool:
    return value is not None and value is not False and value != ()


def _folder(command: Command) -> Path | None:
    """The run's folder that stands where a task does; a built-in task of that name comes first."""
    from truestep.run.folder import SETTINGS  # noqa: PLC0415 - --help does not wait for it
    from truestep.tasks.loading import NAMES  # noqa: PLC0415 - --help does not wait for it

    path = Path(command.task)
    return path if command.task not in NAMES and (path / SETTINGS).is_file() else None


def _options_in(folder: Path) -> dict[str, Any]:
    """What the run was asked to be, as the command's options."""
    from truestep.compare.candidate import Candidate  # noqa: PLC0415 - --help does not wait for it
    from truestep.run.folder import settings_in  # noqa: PLC0415 - --help does not wait for it

    asked = settings_in(folder)
    try:
        candidate = Candidate.parse(asked["candidate"])
        said = {name: value for name in _CANDIDATE if (value := getattr(candidate, name)) is not None}
        said |= {name: asked[name] for name in ("task", *_SETTINGS)}
    except KeyError as error:
        hint = "give the task and its options anew, with --out"
        raise RecordError(f"{folder} does not say the {error} of its run", hint=hint, path=str(folder)) from None
    file = asked["task"].rpartition(":")[0]
    if file.endswith(".py") and not Path(file).is_file():
        hint = "go on with it from the folder in which it was begun"
        raise UsageError(f"{folder} is a run of {asked['task']}, and there is no file {file} here", hint=hint)
    free = asked.get("free", {})
    return {"out": str(folder), **said, **free, "sink": tuple(free.get("sink", ()))}
