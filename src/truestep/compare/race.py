"""Runs a comparison: every run in the protocol's order, each record on disk as soon as its run has ended."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from truestep.compare.crew import in_processes
from truestep.compare.death import AGAIN, may_be_made_again
from truestep.compare.folder import Folder
from truestep.compare.order import Slot, order, remaining
from truestep.compare.protocol import Protocol
from truestep.compare.standing import Record
from truestep.errors import RunError
from truestep.tasks import Task

Hear = Callable[[Slot, dict[str, Any]], None]
Runs = Callable[[Task, Folder, Sequence[Slot], Hear], Generator[tuple[Slot, Record]]]
"""`crew.in_processes`, or what stands in for it."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a race has come to: a run that starts, goes on or has ended (`record`)."""

    slot: Slot
    total: int
    """Runs of the whole comparison, those of an earlier process included."""
    done: int
    """Those of them that have a record: this one's among them once it has ended."""
    report: dict[str, Any]
    """What the run's process says, by its "kind": see truestep.run.child; "started" and "ended" are the race's."""
    record: Record | None = None


def race(
    task: Task,
    folder: Folder,
    *,
    rerun_failed: bool = False,
    runs: Runs = in_processes,
    progress: Callable[[Event], None] = lambda event: None,
) -> None:
    """Run what `folder` lacks of its protocol; its `records` are then complete.

    A run that fails has a record like any other, also where its process dies: it is not run again, unless `rerun_failed`
    asks for it; its earlier seconds are then waste of the new one. Ctrl-C passes through; finished runs stay on disk, and
    those under way leave no record: they are interrupted.

    Raises:
        RunError: the baseline's first run fails as it begins, so that there is nothing to compare with; a run used other data
            or started from other weights than the protocol declares; or the task's code has changed.
        FileError: a ledger or a record cannot be written; it says what is kept.
        UsageError: a candidate that cannot be run; only a run can tell.
    """
    slots = order(folder.protocol.candidates, folder.protocol.seeds)

    def tell(slot: Slot, report: dict[str, Any], record: Record | None = None) -> None:
        progress(Event(slot=slot, total=len(slots), done=len(folder.records), report=report, record=record))

    with closing(runs(task, folder, _left(folder, slots, rerun_failed=rerun_failed), tell)) as ended:
        for slot, record in ended:
            _demand_baseline(folder, record)
            _demand_data(folder.protocol, record)
            _demand_weights(folder.protocol, record)
            folder.put(slot, record)
            tell(slot, {"kind": "ended"}, record)


def _left(folder: Folder, slots: Sequence[Slot], *, rerun_failed: bool) -> tuple[Slot, ...]:
    """The runs to make: those without a record, and, if asked, those whose process failed and whose budget is not spent."""
    budget = folder.protocol.budget_seconds
    done = [
        (record["candidate"], record["seed"])
        for record in folder.records
        if not (rerun_failed and may_be_made_again(record, budget_seconds=budget))
    ]
    return remaining(slots, done)


def _demand_baseline(folder: Folder, record: Record) -> None:
    """RunError where the very first run is the baseline's and fails as it begins."""
    begins = record["counts"]["attempts"] <= folder.protocol.warmup_attempts
    if not folder.records and begins and record["candidate"] == folder.protocol.baseline and record["status"] in _CANNOT_RUN:
        hint = (record["hint"] or "mend the task").removesuffix(AGAIN)  # without a record there is nothing to make again
        raise RunError(
            f"the baseline {folder.protocol.baseline} cannot be run: {record['detail']}",
            hint=f"{hint}; no run has been recorded: ask again, with another --out if the task's code has changed",
            candidate=folder.protocol.baseline,
        )


_CANNOT_RUN = ("error", "crashed")


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
