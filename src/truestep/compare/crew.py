"""The runs of a comparison, each in a process of its own: as many at once as the protocol says, none beyond its time."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from truestep import errors
from truestep.compare.code import digest_of, source_files
from truestep.compare.death import charged, died, where, with_process
from truestep.compare.folder import Folder
from truestep.compare.order import Slot
from truestep.compare.process import Ended, Process, end, uninterrupted
from truestep.compare.protocol import Protocol
from truestep.compare.settings import settings_of, warmup_of
from truestep.compare.standing import Record
from truestep.engine.counts import Counts
from truestep.engine.policy import Policy
from truestep.ledger import read, summarize
from truestep.ledger.environment import environment
from truestep.pages.words import counted
from truestep.run.building import device_of
from truestep.run.child import Job
from truestep.tasks import Task

Hear = Callable[[Slot, dict[str, Any]], None]
"""Takes a run's reports; see truestep.run.child."""

_POLL_SECONDS = 0.1
_TEARDOWN_SECONDS = 10.0
"""How long a process may take to end once its record is here."""
_LAST_WORDS_SECONDS = 1.0
"""How long the last reports of a process that has ended are waited for: its orphans may keep their stream open."""


@dataclass(kw_only=True)
class _Berth:
    """A run under way."""

    slot: Slot
    process: Process
    limit_seconds: float | None = None
    """The limit that its process was ended for."""


def in_processes(task: Task, folder: Folder, slots: Sequence[Slot], hear: Hear) -> Generator[tuple[Slot, Record]]:
    """The runs of `slots`, each with its record as it ends. Closed early, or by Ctrl-C, it ends the processes under way.

    Ctrl-C and SIGTERM wait while a record is made and the caller has it, until the next is asked for: no run that has ended is
    lost. One that has sent its record when they come is yielded before they pass on.

    Raises:
        RunError: the task's code is no longer that which the comparison began with.
        RunError: the system gives no process for a run; what is kept is said.
        FileError, UsageError: no run is to blame: a ledger cannot be written, or what was asked cannot be run.
    """
    protocol, waiting = folder.protocol, deque(slots)
    files = source_files(task, protocol.task)
    code = digest_of(files)
    inbox: queue.SimpleQueue[tuple[Process, float, bytes | None]] = queue.SimpleQueue()
    berths: list[_Berth] = []
    try:
        while waiting or berths:
            while waiting and len(berths) < protocol.jobs:
                slot = waiting.popleft()
                _demand_code(files, code)
                with uninterrupted():  # else Ctrl-C might leave a process that nobody knows of
                    berths.append(_Berth(slot=slot, process=_started(folder, slot, inbox)))
                hear(slot, {"kind": "started"})
            _listen(inbox, berths, hear)
            for berth in [each for each in berths if _is_done(each, protocol)]:
                with uninterrupted():
                    berths.remove(berth)
                    yield berth.slot, _record(folder, berth)
    except KeyboardInterrupt:
        with uninterrupted():
            for berth in _reported(inbox, berths, hear):
                berths.remove(berth)
                yield berth.slot, _record(folder, berth)
        raise
    finally:
        end([berth.process for berth in berths])
        folder.drop_empty_logs()


def _started(folder: Folder, slot: Slot, inbox: queue.SimpleQueue[tuple[Process, float, bytes | None]]) -> Process:
    protocol = folder.protocol
    settings = replace(settings_of(protocol, slot.candidate), budget_seconds=_budget_left(folder, slot))
    folder.set_aside(slot)
    job = Job(
        task=protocol.task,
        settings=settings,
        seed=slot.seed,
        ledger=folder.ledger(slot),
        protocol_hash=protocol.hash,
        warmup=warmup_of(protocol, slot.candidate) if protocol.warmup_attempts else None,
        warmup_seed=max(protocol.seeds) + 1,
    )
    try:
        return Process.started(job, folder.log(slot), lambda process, when, line: inbox.put((process, when, line)))
    except OSError as error:
        raise errors.RunError(
            f"{slot.candidate}, seed {slot.seed}: no process could be begun: {error.strerror or error}",
            hint=f"{counted(len(folder.records), 'finished run')} kept; the same command with --resume goes on once the system "
            "has room, and fewer --jobs with another --out need less of it",
        ) from error


def _budget_left(folder: Folder, slot: Slot) -> float | None:
    """The seconds that a run may still take: a retried run's clock keeps running."""
    budget, earlier = folder.protocol.budget_seconds, folder.record_of(slot)
    return budget if budget is None or earlier is None else budget - earlier["total_seconds"]


def _listen(inbox: queue.SimpleQueue[tuple[Process, float, bytes | None]], berths: Sequence[_Berth], hear: Hear) -> None:
    """Take in what has been reported, or wait a little for it."""
    ending = any(berth.process.silent or berth.process.report for berth in berths)
    with suppress(queue.Empty):
        process, when, line = inbox.get(timeout=0.01 if ending else _POLL_SECONDS)
        while True:
            report = process.heard(when, line)
            slot = next((berth.slot for berth in berths if berth.process is process), None)
            if report is not None and slot is not None:
                hear(slot, report)
            process, when, line = inbox.get_nowait()


def _reported(
    inbox: queue.SimpleQueue[tuple[Process, float, bytes | None]], berths: Sequence[_Berth], hear: Hear
) -> list[_Berth]:
    """The runs that have sent their record, each process over; it is ended where it lingers."""
    _listen(inbox, berths, hear)
    found = [berth for berth in berths if (berth.process.report or {}).get("kind") in ("record", "failed")]
    until = time.monotonic() + _LAST_WORDS_SECONDS
    while not all(berth.process.is_over for berth in found) and time.monotonic() < until:
        time.sleep(0.01)
    end([berth.process for berth in found])
    return found


def _is_done(berth: _Berth, protocol: Protocol) -> bool:
    """Whether the process has ended, all is heard and none of its children is left; one beyond its time is ended here."""
    process, now = berth.process, time.monotonic()
    if not process.is_over:
        if process.report is not None:
            overdue = now > process.heard_at + _TEARDOWN_SECONDS
        else:
            begun = process.moments.get("begun")
            limit_seconds = protocol.startup_timeout_seconds if begun is None else protocol.timeout_seconds
            overdue = limit_seconds is not None and now > (process.begun if begun is None else begun) + limit_seconds
            berth.limit_seconds = limit_seconds if overdue else None
        if not overdue:
            return False
        end([process])
    assert process.over_at is not None
    is_heard = process.silent or time.monotonic() > process.over_at + _LAST_WORDS_SECONDS
    return process.leaves_nobody() and is_heard


def _record(folder: Folder, berth: _Berth) -> Record:
    """The record of a run whose process has ended."""
    slot, protocol = berth.slot, folder.protocol
    ended = berth.process.ended(limit_seconds=berth.limit_seconds)
    report, ledger = ended.report or {}, folder.ledger(slot)
    if report.get("kind") == "refused":
        raise getattr(errors, report["error"])(report["summary"], hint=report["hint"], **report["facts"])
    if report.get("kind") == "record":
        record = report["record"]
        record |= {"ledger": None if record["ledger"] is None else ledger.relative_to(folder.path).as_posix()}
    else:
        record = _died(folder, slot, ended)
    record = with_process(record, ended, at_once=protocol.jobs)
    earlier = folder.record_of(slot)
    return record if earlier is None else charged(record, earlier)


def _died(folder: Folder, slot: Slot, ended: Ended) -> Record:
    device, ledger, log = device_of(None), folder.ledger(slot), folder.log(slot)
    said = log.read_text(errors="replace")[-20_000:]
    place = {
        "ledger": ledger.relative_to(folder.path).as_posix() if ledger.exists() else None,
        "device": str(device),
        "emulated": Policy.named(settings_of(folder.protocol, slot.candidate).policy).emulated(device),
        "environment": environment(device),
        "protocol_hash": folder.protocol.hash,
    }
    return died(
        ended,
        slot,
        counts=_counts(ledger),
        where=where(said, str(Path(folder.protocol.task.rpartition(":")[0]).resolve())),
        words=said.strip().rpartition("\n")[2],
        log=log.relative_to(folder.path).as_posix(),
        budget_seconds=_budget_left(folder, slot),
        place=place,
    )


def _counts(ledger: Path) -> Counts:
    """What a ledger holds; nothing where the process had not begun one."""
    try:
        return summarize(read(ledger)).counts
    except errors.LedgerError:
        return Counts()


def _demand_code(files: Sequence[Path], code: str) -> None:
    try:
        found = digest_of(files)
    except OSError as error:
        found = str(error)
    if found != code:
        raise errors.RunError(
            "the task's code has changed since the comparison began",
            hint="restore it and go on with --resume, or begin anew with another --out",
            declared=code,
            found=found,
        )
