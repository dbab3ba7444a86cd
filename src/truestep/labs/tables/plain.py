"""Values of a run as JSON has them."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:
    """Lists for tuples; a number that is not finite as its word.

    >>> plain((1.0, (float("inf"), None)))
    [1.0, ['inf', None]]
    """
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value
