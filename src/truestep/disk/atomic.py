"""Writes a file whole or not at all: what a reader meets under its name is the old content or the new, after any death."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

BUFFER_BYTES = 1 << 20
"""Small writes wait until there are so many bytes of them."""

_OPEN = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class File:
    """A file being written: `write` and `seek` for whoever fills it.

    After an error nothing more is written, and `finish` raises the first one: a writer in between (that of torch.save) would
    make another error of an exception.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = bytearray()
        self._error: OSError | None = None

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Put `data` behind what was written before; returns its bytes."""
        size = len(data)
        if len(self._waiting) + size > BUFFER_BYTES:
            self.flush()
        if size > BUFFER_BYTES:
            self._put(data)
        else:
            self._waiting += data
        return size

    def flush(self) -> None:
        """Hand to the system what waits; it is on the disk after `finish` only."""
        waiting, self._waiting = self._waiting, bytearray()
        self._put(waiting)

    def seek(self, offset: int) -> None:
        """Go on at `offset` bytes from the beginning."""
        self.flush()
        os.lseek(self._descriptor, offset, os.SEEK_SET)

    def finish(self) -> None:
        """Everything is on the disk when this returns; OSError where it is not."""
        self.flush()
        if self._error is not None:
            raise self._error
        os.fsync(self._descriptor)

    def _put(self, data: bytes | bytearray | memoryview) -> None:
        left = memoryview(data)
        try:
            while left and self._error is None:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            self._error = error


def write(path: Path, content: bytes | Callable[[File], object], *, check: Callable[[Path], object] | None = None) -> None:
    """Make `content`, or what it writes when it is called, the file at `path`, in place of what is there.

    A temporary file in the same folder is filled, synced and renamed, and the folder is synced: after a death at any moment,
    that of the machine included, `path` is the old file or the new one. It costs two waits for the disk. An exception leaves
    the old file and no temporary; a killed process leaves its temporary, for `sweep`.

    Args:
        check: Called with the whole temporary before it takes its place; what it raises keeps it out.

    Raises:
        OSError: the file cannot be written, as the system says it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write(Path(folder, "a"), b"new")
    ...     [path.name for path in Path(folder).iterdir()], Path(folder, "a").read_bytes()
    (['a'], b'new')
    """
    with _temporary(path) as temporary:
        _fill(temporary, content)
        if check is not None:
            check(temporary)
        os.replace(temporary, path)
    sync_folder(path.parent)


def prove_writable(path: Path) -> None:
    """OSError unless a file could be written at `path` now; nothing is left of the trial."""
    with _temporary(path) as temporary:
        _fill(temporary, b"can a file be written here?\n")
        os.unlink(temporary)


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A name beside `path` that nobody has; what is there after an exception, Ctrl-C included, is removed."""
    if not path.name or path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        yield temporary
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _fill(path: Path, content: bytes | Callable[[File], object]) -> None:
    descriptor = os.open(path, _OPEN, 0o666)
    try:
        file = File(descriptor)
        if callable(content):
            content(file)
        else:
            file.write(content)
        file.finish()
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """The names in the folder at `path` are on the disk when this returns, where the system can say so."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows opens no folder
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path, names: str = "*") -> None:
    """Remove the temporaries that killed writers of files called `names` left in `folder`; for its owner alone."""
    for temporary in sorted(folder.glob(f".{names}.????????.new")):
        os.unlink(temporary)
