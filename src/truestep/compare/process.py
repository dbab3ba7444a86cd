"""A run's own process: begun, listened to, and ended; what became of it as one value."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from truestep.run.child import BOOT, Job

Hear = Callable[["Process", float, bytes | None], None]
"""Takes a line that a process has reported and when; None: it will report no more. Called from a thread."""

_GRACE_SECONDS = 2.0
"""From SIGTERM to SIGKILL."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended, and the last that it said."""

    report: dict[str, Any] | None
    """The last word, of kind "record", "failed" or "refused"; None: it died without one."""
    code: int
    """Its exit code; the negative of the signal that ended it."""
    limit_seconds: float | None
    """The limit that it was ended for, of its run, or of its startup and warm-up; None where it ended otherwise."""
    last: dict[str, Any] | None
    """The last attempt's report; None before the first."""
    evaluations: tuple[dict[str, Any], ...]
    startup_seconds: float
    """Interpreter, imports, the task's file; all of it where the process never got ready."""
    warmup_seconds: float | None
    """None where none began or the process died before."""
    run_seconds: float | None
    """After the warm-up: until the end, teardown included; None where the run never began."""
    silent_seconds: float
    """Between the last report and the end."""
    wall_seconds: float
    peak_memory_bytes: int | None
    """Of the machine's memory; None where nobody knows."""
    peak_device_bytes: int | None
    """Of the CUDA device's, as the process last said; None where it used none."""
    killed_for_memory: bool
    """Whether it was ended by SIGKILL while the machine's count of processes killed for memory rose."""


@dataclass(kw_only=True)
class Process:
    """One run's process. It has a session of its own, so that Ctrl-C reaches the parent alone, and ends with its children."""

    log: Path
    """Where what it writes to stdout and stderr goes."""
    begun: float
    _popen: subprocess.Popen[bytes]
    _killed_before: int | None
    moments: dict[str, float] = field(default_factory=dict)
    """Kind of report -> when it came first."""
    heard_at: float
    last: dict[str, Any] | None = None
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    report: dict[str, Any] | None = None
    silent: bool = False
    """Whether it will report no more."""
    over_at: float | None = None
    """When its end was first seen; None while it runs."""
    _silent_at: float | None = None
    _peak_kib: int | None = None

    @staticmethod
    def started(job: Job, log: Path, hear: Hear) -> Process:
        """A process for `job`. OSError where there is none to be had."""
        with open(log, "wb") as said:
            popen = subprocess.Popen(
                [sys.executable, "-c", BOOT, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        now = time.monotonic()
        process = Process(log=log, begun=now, heard_at=now, _popen=popen, _killed_before=_killed_for_memory())
        assert popen.stdin is not None  # open until the end: the process takes its end for ours
        with suppress(BrokenPipeError):  # it has died already
            popen.stdin.write(pickle.dumps(job))
            popen.stdin.flush()
        threading.Thread(target=process._listen, args=(hear,), daemon=True).start()
        return process

    def heard(self, when: float, line: bytes | None) -> dict[str, Any] | None:
        """Take in what `hear` was given; the report, where it is one."""
        if line is None:
            self.silent, self._silent_at = True, when
        if line is None or not line.endswith(b"\n"):  # it died in the middle of a word
            return None
        report: dict[str, Any] = json.loads(line)
        self.heard_at = when
        self.moments.setdefault(report["kind"], when)
        if report["kind"] == "attempt":
            self.last = report
            if report["evaluation"] is not None:
                self.evaluations.append(report["evaluation"])
        elif report["kind"] not in ("ready", "begun"):
            self.report = report
        return report

    @property
    def is_over(self) -> bool:
        """Whether the process has ended; its children are then asked to, see `leaves_nobody`."""
        if self._popen.returncode is None:
            if hasattr(os, "wait4"):
                pid, status, usage = os.wait4(self._popen.pid, os.WNOHANG)
                if pid:
                    self._popen.returncode, self._peak_kib = os.waitstatus_to_exitcode(status), usage.ru_maxrss
            else:
                self._popen.poll()
            if self._popen.returncode is not None:
                self.over_at = time.monotonic()
                self.signal(signal.SIGTERM)
        return self._popen.returncode is not None

    def leaves_nobody(self) -> bool:
        """Whether nothing is left of a process that is over: a child that outlives its grace is killed here."""
        assert self.over_at is not None
        if not hasattr(os, "killpg"):
            return True
        try:
            os.killpg(self._popen.pid, 0)
        except OSError:  # nobody
            return True
        if time.monotonic() < self.over_at + _GRACE_SECONDS:
            return False
        self.signal(signal.SIGKILL)
        return True

    def signal(self, number: int) -> None:
        """Send a signal to the process and its children; to it alone where the system has no groups."""
        with suppress(OSError):  # nobody is left
            if hasattr(os, "killpg"):
                os.killpg(self._popen.pid, number)
            else:
                self._popen.send_signal(number)

    def ended(self, *, limit_seconds: float | None) -> Ended:
        """What became of a process that is over, ended for that limit if for any."""
        assert self.over_at is not None
        silent_at = self.over_at if self._silent_at is None else self._silent_at  # orphans may keep the stream open
        over = max(self.heard_at, min(self.over_at, silent_at))
        if self._popen.stdin is not None:
            with suppress(OSError):
                self._popen.stdin.close()
        ready, begun = self.moments.get("ready"), self.moments.get("begun")
        return Ended(
            report=self.report,
            code=self._popen.returncode,
            limit_seconds=limit_seconds,
            last=self.last,
            evaluations=tuple(self.evaluations),
            startup_seconds=(ready or over) - self.begun,
            warmup_seconds=None if ready is None else (begun or over) - ready,
            run_seconds=None if begun is None else over - begun,
            silent_seconds=over - self.heard_at,
            wall_seconds=over - self.begun,
            peak_memory_bytes=self._peak(),
            peak_device_bytes=(self.report or {}).get("peak_device_bytes") or (self.last or {}).get("peak_device_bytes"),
            killed_for_memory=self._popen.returncode == -signal.SIGKILL and _rose(self._killed_before, _killed_for_memory()),
        )

    def _listen(self, hear: Hear) -> None:
        assert self._popen.stdout is not None
        with self._popen.stdout as reports:
            for line in reports:
                hear(self, time.monotonic(), line)
        hear(self, time.monotonic(), None)

    def _peak(self) -> int | None:
        """What it last said itself, or what the system says of the dead; that may be what we held as we started it."""
        said = (self.report or {}).get("peak_memory_bytes") or (self.last or {}).get("peak_memory_bytes")
        found: int | None = said
        if self._peak_kib is not None and sys.platform == "linux":
            import resource  # noqa: PLC0415  # Windows has none

            if self._peak_kib > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
                found = max(found or 0, 1024 * self._peak_kib)
        return found


def end(processes: Sequence[Process], *, grace_seconds: float = _GRACE_SECONDS) -> None:
    """End processes, at first with SIGTERM; none is alive afterwards, also where Ctrl-C comes in between."""
    try:
        for process in processes:
            process.signal(signal.SIGTERM)
        until = time.monotonic() + grace_seconds
        while not all(process.is_over for process in processes) and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        for process in processes:
            process.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        while not all(process.is_over for process in processes):  # what is killed dies, but for one that waits for a disk
            time.sleep(0.01)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM wait; whatever hears them hears them at the end. Signals reach the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *heard: waiting.append(heard)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for heard, _ in waiting[:1]:
            signal.raise_signal(heard)


def _rose(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and now > before


def _killed_for_memory() -> int | None:
    """Processes that the machine has killed for want of memory since it began; None where it does not count."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/vmstat").read_text().partition("oom_kill ")[2].split()[0])
    return None
