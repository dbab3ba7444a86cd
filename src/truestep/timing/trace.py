"""Traces one attempt by torch.profiler into a file that chrome://tracing and Perfetto open."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.autograd import profiler as torch_profiler
from torch.profiler import ProfilerActivity, record_function
from torch.profiler import profile as torch_profile

from truestep.disk import atomic
from truestep.errors import FileError, StateError

PREFIX = "truestep."
"""Before the names of our ranges: truestep.attempt, and in it truestep.forward and the other stages."""
_ANOTHER = "another torch.profiler was running, and torch has room for one"
_one = threading.Lock()


class Ranges:
    """An attempt and its stages as ranges of whatever torch.profiler is recording in this thread."""

    def __init__(self) -> None:
        self._attempt = _opened("attempt")
        self._stage = _opened("zero")

    def turn(self, stage: str) -> None:
        """The stage's range ends, and that of `stage` begins."""
        self._stage.__exit__(None, None, None)
        self._stage = _opened(stage)

    def end(self) -> None:
        """The ranges end, the inner one first."""
        self._stage.__exit__(None, None, None)
        self._attempt.__exit__(None, None, None)


def is_recording() -> bool:
    """Whether any torch.profiler records what this thread does."""
    return bool(torch.autograd._profiler_enabled())  # type: ignore[attr-defined]  # torch's stubs lack it


class Tracer:
    """One trace: `prepare`, `start` and `stop`, in this order. What goes wrong with it is kept in `error`, and raises nothing.

    Raises:
        FileError: a file at `path` cannot be written. StateError: another torch.profiler is running.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.written = False
        self.error: str | None = None
        self._profile: Any = None
        self._is_running = False
        if torch_profiler._is_profiler_enabled:
            raise StateError(
                "a trace was asked for, and another torch.profiler is running: torch has room for one",
                hint="leave the trace out: the ranges truestep.forward and so on appear in the trace of the other one",
            )
        try:
            atomic.prove_writable(self.path)
        except OSError as error:
            hint = "name a file in a folder that is there and can be written; nothing was run"
            raise FileError(f"no trace can be written at {path}: {error.strerror or error}", hint=hint, path=str(path)) from error

    def prepare(self, device: torch.device) -> None:
        """Let torch get ready, an attempt ahead where there is one: what it records at first is dear on a CUDA device."""
        if torch_profiler._is_profiler_enabled or not _one.acquire(blocking=False):
            self.error = _ANOTHER  # which would end without a word
            return
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
        self._profile = torch_profile(activities=activities)
        self._tried("prepare_trace")

    def start(self) -> None:
        """Record from now on."""
        if self._profile is not None and torch_profiler._is_profiler_enabled:
            self._drop(_ANOTHER)  # which has taken the place; ours must not end it
        if self._profile is not None:
            self._is_running = True
            self._tried("start_trace")

    def stop(self) -> None:
        """End the recording, and write it where there is any."""
        profile, is_running = self._profile, self._is_running
        if profile is None:
            return
        if not is_running:  # prepared, and no attempt came: torch ends what has begun
            self._tried("start_trace")
        self._tried("stop_trace")
        if self._profile is None:
            return
        self._drop(None)
        if is_running:
            try:
                _write(profile, self.path)
                self.written = True
            except (OSError, RuntimeError) as error:  # the disk's, torch's
                self.error = f"no trace was written at {self.path}: {getattr(error, 'strerror', None) or error}"

    def _tried(self, what: str) -> None:
        """Nothing that torch's profiler raises is the training's."""
        if self._profile is not None:
            try:
                getattr(self._profile, what)()
            except Exception as error:
                self._drop(f"torch.profiler failed: {type(error).__name__}: {error}")

    def _drop(self, error: str | None) -> None:
        self._profile, self._is_running, self.error = None, False, error
        _one.release()


def _opened(stage: str) -> Any:
    return record_function(PREFIX + stage).__enter__()  # type: ignore[no-untyped-call]  # torch's is untyped


def _write(profile: Any, path: Path) -> None:
    """The trace at `path`, whole or not at all, packed where its name ends in .gz; OSError where that cannot be.

    torch says nothing of a file that it could not write, or not to its end: hence the reading.
    """
    with TemporaryDirectory(prefix="truestep-trace-") as folder:
        raw = Path(folder, "trace.json")
        profile.export_chrome_trace(str(raw))
        content = raw.read_bytes() if raw.exists() else b""
    try:
        json.loads(content)
    except ValueError:
        raise OSError(f"torch wrote no whole trace into {folder}; is there room?") from None
    atomic.write(path, gzip.compress(content) if path.suffix == ".gz" else content)
