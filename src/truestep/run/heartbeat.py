"""The last that is known of a run's clocks, on disk after each attempt, so that a killed process does not take its time along."""

from __future__ import annotations

import json
import os
import weakref
from dataclasses import asdict
from pathlib import Path

from truestep.errors import FileError
from truestep.run.clocks import Clocks

HEARTBEAT_BYTES = 512


class Heartbeat:
    """A file of one line that is overwritten in place, in one write of a fixed length: a few microseconds, and no sync."""

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            raise _unwritten(path, error) from error
        self._path = path
        weakref.finalize(self, os.close, self._descriptor)

    def beat(self, clocks: Clocks, cpu_seconds: float) -> None:
        """So far the run has come."""
        line = json.dumps({"clocks": asdict(clocks), "cpu_seconds": cpu_seconds}).encode("ascii")
        try:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, line.ljust(HEARTBEAT_BYTES - 1) + b"\n")
        except OSError as error:
            raise _unwritten(self._path, error) from error


def last_beat(path: Path) -> tuple[Clocks, float]:
    """The clocks and the CPU seconds that an earlier process left; all 0 where none is known."""
    try:
        record = json.loads(path.read_bytes())
        return Clocks(**record["clocks"]), float(record["cpu_seconds"])
    except (OSError, KeyError, TypeError, ValueError):  # no process came so far, or the machine died in a write
        return Clocks(), 0.0


def _unwritten(path: Path, error: OSError) -> FileError:
    hint = "make room, or give a folder that can be written"
    return FileError(f"{path} cannot be written: {error.strerror or error}", hint=hint, path=str(path))
