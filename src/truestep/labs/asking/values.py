"""Measured values and answers, in words for a learner and as JSON has them."""

from __future__ import annotations

from typing import Any


def said(value: Any) -> str:
    """A value in words: seven digits, 0 without a sign, a tuple in brackets, - for none.

    >>> said(204.8), said((1.2, 3)), said(True), said("float16"), said(None), said(-0.0)
    ('204.8', '[1.2, 3]', 'yes', 'float16', '-', '0')
    """
    if isinstance(value, tuple):
        return f"[{', '.join(map(said, value))}]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value + 0.0:.7g}" if isinstance(value, float) else str(value)


def plain(value: Any) -> Any:
    """Lists for tuples, inside too; a number that is not finite is given as its word.

    >>> plain({"a": (1.5, float("inf"))})
    {'a': [1.5, 'inf']}
    """
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value
