"""A run's folder: what it was asked to be, its ledger, checkpoints and record; refused where it holds another run."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from truestep.disk import atomic
from truestep.disk.canonical import parsed
from truestep.disk.hold import Hold, held
from truestep.errors import RecordError
from truestep.run.record import RunRecord
from truestep.run.saving import HEARTBEAT
from truestep.run.settings import Settings

SCHEMA = 1
SETTINGS, LEDGER, CHECKPOINTS, RECORD = "settings.json", "ledger.jsonl", "checkpoints", "record.json"
TRACE = "trace.json"
"""Of one attempt, where a profile was asked for."""
FINISHED = ("reached", "budget", "diverged", "stalled")
"""How a run ends that would end so again; any other goes on when it is resumed."""
_FREE = ("on_oom", "time_stages")
"""Settings that may change from one process of a run to the next."""
_FREE_AS_WELL = "free"
"""What settings.json says for whoever goes on without saying it anew, and holds no run to."""


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """A run on disk, this process's alone. Get one with `opened`."""

    path: Path
    hold: Hold | None
    begun: bool
    """Whether an earlier process has begun the run: one that came to no ledger, as where a sink did not open, has not."""
    finished: RunRecord | None
    """The record of a run that has come to its end; None for one that can go on."""
    made: tuple[Path, ...]
    """The folders that were not there before, the innermost first."""

    @staticmethod
    def opened(path: Path, asked: Mapping[str, Any], *, resume: bool) -> RunFolder:
        """The folder at `path`, made where there is none; `asked` is what `asked_of` gave. settings.json is on disk then.

        Raises:
            RecordError: the folder cannot be written; another process has it; it holds a run and `resume` was not asked; or
                it holds one that was begun with other settings, of which the first is named.
        """
        made = tuple(folder.absolute() for folder in (path, *path.parents) if not folder.exists())
        try:
            path.mkdir(parents=True, exist_ok=True)
            hold = held(path)
            there = _read(path / SETTINGS)
            if there is None:
                _demand_free(path)
            begun = there is not None and _has_begun(path)
            if begun:
                _demand_same(path, there, asked)
                _demand_resumed(path, resume=resume)
            if there != asked:  # what may change is as it was said last
                atomic.write(path / SETTINGS, (json.dumps(asked, indent=2, allow_nan=False) + "\n").encode())
        except BlockingIOError as error:
            hint = "wait for it to end, or give another --out"
            raise RecordError(f"another process is training in {path}", hint=hint, path=str(path)) from error
        except OSError as error:
            hint = "give a folder that can be written: --out DIR; nothing was run"
            raise RecordError(f"{path} cannot be written: {error.strerror or error}", hint=hint, path=str(path)) from error
        whole = path.absolute()  # the task's code may change the working directory
        return RunFolder(path=whole, hold=hold, begun=begun, finished=_finished(path), made=made)

    def withdraw(self) -> None:
        """Take back what `opened` made for a run that turned out not to be possible."""
        if not self.begun:
            (self.path / CHECKPOINTS / HEARTBEAT).unlink(missing_ok=True)
            (self.path / SETTINGS).unlink()
            for folder in (self.path / CHECKPOINTS, *self.made):
                with contextlib.suppress(OSError):  # it is not there, or holds something else
                    folder.rmdir()

    def keep(self, record: RunRecord) -> None:
        """Put the record on disk."""
        try:
            atomic.write(self.path / RECORD, (json.dumps(record.as_dict(), indent=2, allow_nan=False) + "\n").encode())
        except OSError as error:
            hint = "make room; the same command with --resume goes on from the last checkpoint"
            raise RecordError(
                f"writing {self.path / RECORD}: {error.strerror or error}", hint=hint, path=str(self.path)
            ) from error


def asked_of(task: str, settings: Settings, *, seed: int, device: str, free: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a run is asked to be, as JSON values, in the order in which a difference is told.

    `free` is what may be otherwise when it is gone on with.
    """
    asked = {name: value for name, value in asdict(settings).items() if name not in _FREE}
    whole = {"schema": SCHEMA, "task": task, "seed": seed, **asked, "device": device, **({_FREE_AS_WELL: free} if free else {})}
    written: dict[str, Any] = json.loads(json.dumps(whole))
    return written  # as a file gives it back: a tuple is a list


def settings_in(path: Path) -> dict[str, Any]:
    """What the run in the folder at `path` was asked to be."""
    found: dict[str, Any] = _read(path / SETTINGS)
    return found


def folder_of(task: str, candidate: str, *, seed: int) -> Path:
    """Where a run goes that was not told.

    >>> folder_of("my/task.py:Line", "fp16 clip=1", seed=3)
    PosixPath('runs/Line-fp16-clip-1-seed3')
    """
    name = task.rpartition(":")[2].removesuffix(".py")
    return Path("runs") / f"{name}-{re.sub(r'[^A-Za-z0-9.]+', '-', candidate)}-seed{seed}"


def _demand_free(path: Path) -> None:
    """RecordError where files stand that a run would write, and nothing says whose they are."""
    for name in (LEDGER, RECORD, CHECKPOINTS):
        if (path / name).exists():
            hint = "give another --out, or move it away"
            raise RecordError(f"{path} holds a {name} and no {SETTINGS}", hint=hint, path=str(path))


def _demand_resumed(path: Path, *, resume: bool) -> None:
    """RecordError where a run is there that nobody asked to go on with."""
    if not resume:
        hint = "--resume goes on with it; another --out begins anew"
        raise RecordError(f"{path} holds this run already", hint=hint, path=str(path))


def _has_begun(path: Path) -> bool:
    """Whether there is anything to go on with."""
    return any((path / name).exists() for name in (LEDGER, RECORD)) or any((path / CHECKPOINTS).glob("attempt-*"))


def _demand_same(path: Path, there: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    for name in dict.fromkeys([*asked, *there]):
        if name != _FREE_AS_WELL and there.get(name) != asked.get(name):
            words, old, new = name.replace("_", " "), json.dumps(there.get(name)), json.dumps(asked.get(name))
            raise RecordError(
                f"{path} holds another run: its {words} is {old}, and {new} was asked",
                hint="a run goes on with the settings that it began with, its budget among them, for the schedule is laid out "
                "over it; another --out begins anew",
                path=str(path),
                field=name,
            )


def _finished(path: Path) -> RunRecord | None:
    content = _read(path / RECORD)
    record = None if content is None else RunRecord.from_dict(content)
    return record if record is not None and record.status in FINISHED else None


def _read(path: Path) -> Any:
    """The JSON object of a file; None where there is none."""
    try:
        value = parsed(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RecordError(
            f"{path} is no JSON: {error}", hint="restore the file, or give another --out", path=str(path)
        ) from error
    if not isinstance(value, dict):
        raise RecordError(f"{path} holds no JSON object", hint="restore the file, or give another --out", path=str(path))
    return value
