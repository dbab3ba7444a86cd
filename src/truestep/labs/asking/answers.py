"""Reads a file of answers, before anything slow is imported: whatever labs there are, it is JSON of one form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truestep.errors import FileError, UsageError

FORM = 'write {"lab/key": {"answer": ..., "confidence": 3}}; truestep labs --ask --json has all questions'
FIELDS = ("answer", "confidence")
Answers = Mapping[str, Mapping[str, Any]]
"""By exercise."""


def read_answers(path: Path) -> Answers:
    """The file's answers.

    Raises:
        FileError: it cannot be read. UsageError: it is no JSON of that form.
    """
    try:
        document = json.loads(path.read_bytes(), object_pairs_hook=_each_once)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}", hint="name a file of answers") from error
    except _TwiceError as twice:
        raise UsageError(f"{path} has {twice} twice", hint="keep one of the two") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}", hint=FORM) from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no object", hint=FORM)
    for name, given in document.items():
        if not isinstance(given, dict) or "answer" not in given:
            raise UsageError(f"{path} has no answer under {name!r}", hint=FORM)
        if unknown := [repr(each) for each in given if each not in FIELDS]:
            raise UsageError(f"{path} has {', '.join(unknown)} under {name!r}, which is not read", hint=FORM)
    return document


class _TwiceError(Exception):
    """An object has a name twice, and the first value would be lost."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(repr(name))
        found[name] = value
    return found
