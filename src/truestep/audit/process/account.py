"""What one process of an audited script has to tell, and the file it is told in."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truestep.audit.events import Event
from truestep.audit.plain import plain, read
from truestep.audit.story import Totals
from truestep.audit.trace.settings import Settings
from truestep.errors import RecordError

SCHEMA = 1

AGAIN = "audit again, with one version of truestep in all of the script's processes"

ASKED = "TRUESTEP_AUDIT"
"""The environment variable that asks each process below the audit for its account."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What an audit asks of the processes below it."""

    folder: str
    """Where each of them puts its account."""
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class Account:
    """What one process saw, as far as it had come."""

    process: int
    began_ns: int
    """When it was first watched, in nanoseconds since 1970."""
    rank: int | None
    arguments: tuple[str, ...]
    """What the script was given in this process."""
    ended: bool
    """Whether this is its last word; else it may run on, or was ended without another."""
    events: tuple[Event, ...]
    totals: Totals
    coverage: dict[str, Any] = field(default_factory=dict)
    """What the recorder says it has judged and has not."""
    traceback: str | None = None
    """Of the exception that ended it."""
    schema: int = SCHEMA


def write(account: Account, path: Path) -> None:
    """Puts the account at `path`, whole; not forced to the disk, which the death of a process does not ask for."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(plain(account), allow_nan=False))
    os.replace(temporary, path)


def excuse(error: Exception, folder: Path) -> None:
    """Leaves word in `folder` that this process has no account, or no whole one; without a folder nobody wants to know."""
    with suppress(OSError):
        (folder / f"{os.getpid()}.failed").write_text(f"{type(error).__name__}: {error}")


def load(path: Path) -> Account:
    """The account at `path`; RecordError where it is none, or that of another version."""
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise RecordError(f"{path.name} is no account of a process", hint=AGAIN, path=str(path)) from error
    account = read(Account, value)
    if account.schema != SCHEMA:
        raise RecordError(f"{path.name} has schema {account.schema}, which is not {SCHEMA}", hint=AGAIN, path=str(path))
    return account
