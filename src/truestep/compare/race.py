"""Runs a comparison: warm-ups, then every run in the protocol's order, each record on disk before the next run starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from truestep.compare.folder import Folder
from truestep.compare.order import Slot, order, remaining
from truestep.compare.protocol import Protocol
from truestep.compare.settings import settings_of, warmup_of
from truestep.compare.standing import Record
from truestep.errors import RunError
from truestep.run import Progress, RunRecord
from truestep.run import train as train_once
from truestep.tasks import Task

Train = Callable[..., RunRecord]
"""`truestep.run.train`, or what stands in for it."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a race has come to: a run that starts, goes on (`inside`) or has ended (`record`)."""

    slot: Slot
    total: int
    """Runs of the whole comparison, those of an earlier process included."""
    warmup: bool
    """Whether this run is a warm-up, which leaves no record."""
    inside: Progress | None = None
    record: Record | None = None


def race(
    task: Task, folder: Folder, *, train: Train = train_once, progress: Callable[[Event], None] = lambda event: None
) -> None:
    """Run what `folder` lacks of its protocol; its `records` are then complete.

    Every candidate that still has runs is warmed up first, on a seed that the protocol does not use; warm-ups are
    discarded. A run that fails has a record like any other. Ctrl-C passes through; finished runs stay on disk.

    Raises:
        RunError: the baseline's warm-up ends in an error, so that there is nothing to compare with; or a run, warm-ups
            included, used other data or started from other weights than the protocol declares.
        FileError: a ledger or a record cannot be written; it says what is kept.
        UsageError: a candidate that cannot be run; only a run can tell.
    """
    protocol = folder.protocol
    slots = order(protocol.candidates, protocol.seeds)
    left = remaining(slots, [(record["candidate"], record["seed"]) for record in folder.records])
    for candidate in _waiting(protocol, left):
        slot = Slot(candidate=candidate, seed=max(protocol.seeds) + 1, position=0)
        progress(Event(slot=slot, total=len(slots), warmup=True))
        record = train(task, warmup_of(protocol, candidate), seed=slot.seed).as_dict()
        _demand_baseline(protocol, record)
        _demand_data(protocol, record)
        progress(Event(slot=slot, total=len(slots), warmup=True, record=record))
    for slot in left:
        folder.append(_run(task, folder, slot, total=len(slots), train=train, progress=progress))
        progress(Event(slot=slot, total=len(slots), warmup=False, record=folder.records[-1]))


def _waiting(protocol: Protocol, left: tuple[Slot, ...]) -> list[str]:
    """The candidates to warm up: those that still have runs; none where the protocol has no warm-up."""
    names = {slot.candidate for slot in left} if protocol.warmup_attempts else set()
    return [candidate for candidate in protocol.candidates if candidate in names]


def _run(
    task: Task, folder: Folder, slot: Slot, *, total: int, train: Train, progress: Callable[[Event], None]
) -> dict[str, Any]:
    """One run's record."""
    protocol = folder.protocol
    folder.set_aside(slot)
    ledger = folder.ledger(slot)
    progress(Event(slot=slot, total=total, warmup=False))
    record = train(
        task,
        settings_of(protocol, slot.candidate),
        seed=slot.seed,
        ledger=ledger,
        progress=lambda inside: progress(Event(slot=slot, total=total, warmup=False, inside=inside)),
        protocol_hash=protocol.hash,
    ).as_dict()
    _demand_data(protocol, record)
    _demand_weights(protocol, record)
    return record | {"ledger": None if record["ledger"] is None else ledger.relative_to(folder.path).as_posix()}


def _demand_baseline(protocol: Protocol, record: Record) -> None:
    if record["candidate"] == protocol.baseline and record["status"] == "error":
        raise RunError(
            f"the baseline {protocol.baseline} cannot be run: {record['detail']}",
            hint=f"{record['hint'] or 'mend the task and ask again'}; no run has been recorded",
            candidate=protocol.baseline,
        )


def _demand_data(protocol: Protocol, record: Record) -> None:
    """RunError where a run used data of its own: pairs would compare data sets."""
    found = record["data_digest"]
    if found is not None and found != protocol.data_digest:
        raise RunError(
            f"{record['candidate']}, seed {record['seed']}: the run's data are not those that the protocol declares",
            hint="let the task's splits() give the same on every call; where items are drawn at random, give it a digest() of "
            "what they are drawn from",
            declared=protocol.data_digest,
            found=found,
        )


def _demand_weights(protocol: Protocol, record: Record) -> None:
    """RunError where a run began elsewhere than the others of its seed: pairs would compare the task's dice."""
    declared, found = protocol.initial_weights[str(record["seed"])], record["initial_digest"]
    if found is not None and found != declared:
        raise RunError(
            f"{record['candidate']}, seed {record['seed']}: the run started from other weights than the protocol declares",
            hint="let the task's model() draw from torch's random state alone",
            declared=declared,
            found=found,
        )
