"""`truestep` as a shell starts it: in a process of its own, and a session that hears Ctrl-C together."""

from __future__ import annotations

from tests import ready


def started(*arguments: str, terminal: int | None = None) -> ready.Process:
    """`truestep ARGUMENTS` on pipes, or on a terminal."""
    stream = ready.PIPE if terminal is None else terminal
    return ready.started("-m", "truestep", *arguments, stdout=stream, stderr=stream, new_session=True)
