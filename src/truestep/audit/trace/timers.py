"""Clocks that a script reads."""

from __future__ import annotations

from typing import Any


def install(recorder: Any, patches: Any) -> None:
    """Nothing is watched yet."""
