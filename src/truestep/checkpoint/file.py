"""The file of a checkpoint: a head of two lines, then torch's bytes; nothing is unpickled before its digest is right.

truestep-checkpoint <schema> <SHA-256 of the second line, with the schema before it>
{"bytes": <length of the rest>, "counts": ..., "policy": ..., "quality": ..., "sha256": <of the rest>, ...}
<what torch.save writes>
"""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from truestep.checkpoint.description import Description
from truestep.disk import atomic
from truestep.disk.canonical import canonical, parsed
from truestep.errors import CheckpointError

SCHEMA = 1
"""Moves when the meaning of what is saved moves. The first line keeps its form in every schema."""
MAGIC = b"truestep-checkpoint "
_LONGEST_HEAD = 1 << 16
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint that was read: whole, and changing nothing until somebody loads what it holds."""

    path: Path
    description: Description
    state: Mapping[str, Any]
    """"model" (its weights in float32), "optimizers", "schedulers", "update", "random" and "parts"; tensors lie on the CPU."""


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint at `path`: what it says of itself and all that it holds, on the CPU.

    Its SHA-256 is taken first, and it is unpickled by torch.load(weights_only=True), which runs no code of the file.

    Raises:
        CheckpointError: the file cannot be read, is torn, altered or foreign, or of a schema that is not read here.

    >>> import truestep
    >>> from tempfile import TemporaryDirectory
    >>> model = torch.nn.Linear(1, 1)
    >>> update = truestep.Update(model, torch.optim.SGD(model.parameters()), loss=lambda model, x: model(x).mean())
    >>> with TemporaryDirectory() as folder:
    ...     checkpoint = read_checkpoint(truestep.Checkpoints(folder).save(update, quality=0.5))
    >>> checkpoint.description.quality, checkpoint.description.policy, sorted(checkpoint.state["model"])
    (0.5, 'fp32', ['bias', 'weight'])
    """
    path = Path(path)
    with opened(path) as file:
        head = _read_head(path, file)
        _demand_whole(path, file, head)
        file.seek(head.length)
        return Checkpoint(path=path, description=head.description, state=loaded(path, file))


def read_description(path: Path) -> Description:
    """What the checkpoint at `path` says of itself; CheckpointError where its head is not whole. The rest is not looked at."""
    with opened(path) as file:
        return _read_head(path, file).description


def demand_whole(path: Path) -> None:
    """CheckpointError unless every byte of the checkpoint at `path` is as it was written."""
    with opened(path) as file:
        _demand_whole(path, file, _read_head(path, file))


def write_checkpoint(path: Path, state: Mapping[str, Any], description: Description) -> None:
    """Write the file whole or not at all. The state is written from where it lies: nothing is copied as a whole.

    Raises:
        OSError: the file cannot be written.
        Exception: `state` cannot be pickled, or not loaded again by weights_only; whatever torch says of it.
    """

    def fill(file: atomic.File) -> None:
        room = len(_head(description, length=1 << 62, digest="0" * 64))
        file.write(b" " * room)
        rest = _Digested(file)
        torch.save(dict(state), cast(IO[bytes], rest))  # it calls write and flush alone
        file.seek(0)
        file.write(_head(description, length=rest.length, digest=rest.digest.hexdigest(), room=room))

    atomic.write(path, fill, check=_demand_loadable)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The regular file at `path`, open for reading; CheckpointError where there is none, or reading it fails inside."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise refused(path, "it is no regular file")
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise refused(path, f"it cannot be read: {error.strerror or error}") from error


def is_ours(file: BinaryIO) -> bool:
    """Whether `file` begins as a checkpoint does."""
    file.seek(0)
    found = file.read(len(MAGIC)) == MAGIC
    file.seek(0)
    return found


def loaded(path: Path, file: BinaryIO) -> Any:
    """What torch.save wrote from where `file` stands; tensors on the CPU, whatever device they were saved from."""
    try:
        return _load(file)
    except Exception as error:  # whatever a file can make of torch's reader
        raise refused(path, f"torch.load(weights_only=True) does not load it: {why(error)}") from error


def refused(path: Path, reason: str) -> CheckpointError:
    """The error of a file that is not used."""
    hint = "use an earlier one, or begin anew; the file is left as it is"
    return CheckpointError(f"{path} is no checkpoint that can be used: {reason}", hint=hint, path=str(path), reason=reason)


def why(error: BaseException) -> str:
    """One line of `error`: its kind and the first of its text; of torch's advice about a pickle, the error that it is about."""
    if isinstance(error, pickle.UnpicklingError) and error.__context__ is not None:
        error = error.__context__
    text = str(error).strip().partition(". Please use")[0]
    return f"{type(error).__name__}: {(text.splitlines() or ['no text'])[0]}"


@dataclass(frozen=True, kw_only=True)
class _Head:
    description: Description
    length: int
    """Bytes of the head itself."""
    rest: int
    """Bytes behind it."""
    sha256: str


class _Digested:
    """Hands on what is written, and keeps its length and SHA-256."""

    def __init__(self, file: atomic.File) -> None:
        self._file, self.digest, self.length = file, hashlib.sha256(), 0

    def write(self, data: bytes | memoryview) -> int:
        self.digest.update(data)
        self.length += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Asked for by torch.save; what waits is written at the end."""


def _head(description: Description, *, length: int, digest: str, room: int | None = None) -> bytes:
    """The two lines; the second is filled up with spaces to `room` bytes in all."""
    line = canonical(description.as_dict() | {"bytes": length, "sha256": digest})
    if room is not None:
        line = line.ljust(room - len(_first_line_of(line)) - 1)
    return _first_line_of(line) + line + b"\n"


def _first_line_of(line: bytes) -> bytes:
    schema = b"%d " % SCHEMA
    return MAGIC + schema + hashlib.sha256(schema + line).hexdigest().encode("ascii") + b"\n"


def _read_head(path: Path, file: BinaryIO) -> _Head:
    if not is_ours(file):
        raise refused(path, "it does not begin as one" if file.read(1) else "it is empty")
    first, second = (file.readline(_LONGEST_HEAD) for _ in range(2))
    words = first.removeprefix(MAGIC).split()
    if not second.endswith(b"\n") or len(words) != 2:
        raise refused(path, "its head is cut off or altered")
    schema, digest = words
    line = second.removesuffix(b"\n")
    if hashlib.sha256(schema + b" " + line).hexdigest().encode("ascii") != digest:
        raise refused(path, "its head is altered: the SHA-256 differs")
    if schema != b"%d" % SCHEMA:
        raise refused(path, f"it is of schema {schema.decode('ascii')}, and this truestep reads schema {SCHEMA}")
    try:
        record = parsed(line)
        description, rest, sha256 = Description.from_dict(record), int(record["bytes"]), str(record["sha256"])
    except (KeyError, TypeError, ValueError) as error:
        raise refused(path, f"its head says something else: {why(error)}") from error
    return _Head(description=description, length=len(first) + len(second), rest=rest, sha256=sha256)


def _demand_whole(path: Path, file: BinaryIO, head: _Head) -> None:
    """Leaves `file` anywhere."""
    there = os.fstat(file.fileno()).st_size - head.length
    if there != head.rest:
        what = "cut off" if there < head.rest else "too long"
        raise refused(path, f"it is {what}: {there} bytes follow its head, and {head.rest} were written")
    file.seek(head.length)
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    if digest.hexdigest() != head.sha256:
        raise refused(path, "its content is altered: the SHA-256 differs")


def _demand_loadable(path: Path) -> None:
    """Whatever torch raises for a file that it would not load later; tensors are read only where that cannot be told without."""
    with opened(path) as file:
        start = _read_head(path, file).length
        with suppress(Exception), torch.serialization.skip_data():
            file.seek(start)
            _load(file)
            return
        file.seek(start)  # a sparse tensor's size is held against its indices, which were left out
        _load(file)


def _load(file: BinaryIO) -> Any:
    """Torch says each time that it looks through the indices of sparse tensors: that is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Validating sparse tensor invariants", UserWarning)
        return torch.load(file, map_location="cpu", weights_only=True)
