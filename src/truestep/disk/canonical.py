"""JSON in one form, so that equal values have equal bytes and one hash; and read so strictly that nothing else passes."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> bytes:
    """`value` as ASCII JSON with sorted keys and no spaces.

    ValueError for NaN and infinities, which JSON has no word for; TypeError for what is no JSON value.

    >>> canonical({"b": 1.5, "a": None})
    b'{"a":null,"b":1.5}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(value: Any) -> str:
    """SHA-256 of `value`'s canonical form, in hexadecimal.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(canonical(value)).hexdigest()


def parsed(content: bytes | str) -> Any:
    """The value that JSON says; ValueError for anything else, NaN and a key that stands twice included.

    >>> parsed(b'{"a": [1, null]}')
    {'a': [1, None]}
    """
    try:
        return json.loads(content, parse_constant=_refused, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found
