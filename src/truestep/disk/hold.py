"""A folder that one process has to itself, until it dies."""

from __future__ import annotations

import errno
import os
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks, and there two processes in one folder are not told apart
    fcntl = None  # type: ignore[assignment]  # it is a module elsewhere

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system answers that keeps no locks, such as some networks'."""


class Hold:
    """Keeps other processes out of a folder for as long as it lives. Get one with `held`."""

    def __init__(self, descriptor: int) -> None:
        self.release = weakref.finalize(self, os.close, descriptor)

    @property
    def is_alive(self) -> bool:
        """Whether it still holds: not after `release`, and not in a fork, which has no part in it."""
        return self.release.alive


def held(path: Path) -> Hold | None:
    """The hold on the folder at `path`, taken now unless this process has it; None on a system without locks.

    The system ends it with the process, however that dies; forked children (the workers of a DataLoader may outlive a killed
    parent by seconds) take no share. Where only the file system has no locks, two processes are not told apart either.

    Raises:
        BlockingIOError: another process holds it.
        OSError: there is no such folder, or it cannot be read.
    """
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    status = os.fstat(descriptor)
    key = status.st_dev, status.st_ino
    if (mine := _HELD.get(key)) is not None and mine.is_alive:
        os.close(descriptor)
        return mine
    hold = Hold(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            hold.release()
            raise
    _HELD[key] = hold
    return hold


_HELD: weakref.WeakValueDictionary[tuple[int, int], Hold] = weakref.WeakValueDictionary()


def _let_go() -> None:
    """In a fork: its copies of the descriptors would keep the folders held after the parent's death."""
    for hold in list(_HELD.values()):
        hold.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
