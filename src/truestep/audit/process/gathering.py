"""Reads what the processes of a script had to tell, once those that still come to their end have come to it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from truestep.audit.process.account import Account, load
from truestep.errors import RecordError

PATIENCE_SECONDS = 5.0
"""How long the last words of processes that outlive the script's first one are waited for."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """The accounts in the order in which their processes began, and what could not be had."""

    accounts: tuple[Account, ...]
    missing: tuple[dict[str, str], ...]
    """`what` and `why`, as coverage has them."""


def gather(folder: Path) -> Gathered:
    """What is told in `folder`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    gathered = _read(folder)
    while time.monotonic() < deadline and any(not each.ended and _runs(each.process) for each in gathered.accounts):
        time.sleep(0.05)
        gathered = _read(folder)
    return gathered


def _read(folder: Path) -> Gathered:
    accounts, missing = [], []
    for path in folder.glob("*.json"):
        try:
            accounts.append(load(path))
        except RecordError as error:
            missing.append({"what": f"process {path.stem.partition('-')[0]}", "why": error.summary})
    for path in folder.glob("*.failed"):
        reason = path.read_text() or "no reason could be written; is the folder for temporary files full?"
        missing.append({"what": f"process {path.stem}", "why": f"the audit failed in it: {reason}"})
    for account in accounts:
        if not account.ended:
            why = "it was still running" if _runs(account.process) else "it was killed, and wrote nothing in its last moment"
            missing.append({"what": f"the end of process {account.process}", "why": why})
    return Gathered(accounts=tuple(sorted(accounts, key=lambda each: each.began_ns)), missing=tuple(missing))


def _runs(process: int) -> bool:
    """Whether a process runs; one that has ended but that nobody has asked for does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return _answers(process) if not Path("/proc/self/stat").exists() else False
    return state not in "ZX"


def _answers(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True
