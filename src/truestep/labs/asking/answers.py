"""Reads a file of answers, before anything slow is imported: whatever labs there are, it is JSON of one form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truestep.errors import FileError, UsageError

FORM = 'write {"lab/key": {"answer": ..., "confidence": 3}}; truestep labs --ask --json has all questions'
Answers = Mapping[str, Mapping[str, Any]]
"""By exercise."""


def read_answers(path: Path) -> Answers:
    """The file's answers.

    Raises:
        FileError: it cannot be read. UsageError: it is no JSON of that form.
    """
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}", hint="name a file of answers") from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}", hint=FORM) from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no object", hint=FORM)
    for name, given in document.items():
        if not isinstance(given, dict) or "answer" not in given:
            raise UsageError(f"{path} has no answer under {name!r}", hint=FORM)
    return document
