"""Places in code: where the user's own line is, and where in a library the call lies that it led to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file."""

    path: str
    line: int
    function: str = "<module>"

    def __str__(self) -> str:
        """`path:line`."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Site:
    """Where something was called: the innermost line of the user's own code, the lines that led there, and the library."""

    place: Place
    callers: tuple[Place, ...] = ()
    """The user's lines above it, innermost first."""
    library: Place | None = None
    """The outermost line of another package below the user's line, where the call came through one; None where it did not."""
    below_library: int | None = None
    """How many of the leading lines were called by another package, which lies between them and the rest; None where none was."""

    @property
    def path(self) -> str:
        """Of the user's file."""
        return self.place.path

    @property
    def line(self) -> int:
        """In the user's file, from 1."""
        return self.place.line

    def __str__(self) -> str:
        """The user's line, as `path:line`."""
        return str(self.place)
