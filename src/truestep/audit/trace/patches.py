"""Replacing functions and methods of others for a while, and putting them back."""

from __future__ import annotations

from typing import Any

_ABSENT: Any = object()


class Patches:
    """What was replaced, in order, so that all of it can be taken back."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, new: Any) -> Any:
        """Puts `new` where `owner.name` stands, and gives what stood there; an inherited attribute is hidden, not changed."""
        old = getattr(owner, name)
        self._replaced.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, new)
        return old

    def undo(self) -> None:
        """Puts everything back, the last first."""
        while self._replaced:
            owner, name, own = self._replaced.pop()
            if own is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
