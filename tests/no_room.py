"""A disk without room, which harms no machine: what this process or a child of its may write to a file is bounded."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

NO_ROOM = "File too large"
"""As the system says it, which also has a bound for all files of a process; of a full disk it says "No space left on device"."""


@contextmanager
def no_room(free_bytes: int = 0) -> Iterator[None]:
    """Inside, a write to a regular file fails behind its first `free_bytes`; to a pipe or a terminal it does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, hard))  # Python ignores the signal that comes with it
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
