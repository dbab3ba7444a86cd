"""The protocol and the environments in words, field by field, as their files hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from truestep.pages.comparison.reading import Comparison
from truestep.pages.words import count

Fields = tuple[tuple[str, str], ...]


def declared(comparison: Comparison) -> Fields:
    """The protocol's fields with their values."""
    return _fields(comparison.protocol)


def environments(comparison: Comparison) -> tuple[tuple[str, Fields], ...]:
    """Each different environment that the records name, with the number of runs that it held.

    More than one means that the runs did not share a machine or its software, which the words say.
    """
    found: dict[str, list[Any]] = {}
    for record in comparison.records:
        found.setdefault(json.dumps(record["environment"], sort_keys=True), []).append(record["environment"])
    words = "{} of {} runs" if len(found) < 2 else "{} of {} runs: not all runs had the same environment"
    total = count(len(comparison.records))
    return tuple((words.format(count(len(same)), total), _fields(same[0] or {})) for same in found.values())


def _fields(values: Mapping[str, Any]) -> Fields:
    return tuple((name.replace("_", " "), in_words(value)) for name, value in values.items())


def in_words(value: Any) -> str:
    """A JSON value in words.

    >>> in_words(None), in_words([]), in_words(["fp32", "fp16"]), in_words({"train": 1197}), in_words(0.05)
    ('none', 'none', 'fp32, fp16', 'train: 1197', '0.05')
    """
    if value is None or value == []:
        return "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {in_words(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(in_words, value))
    return str(value)
