"""How a race looks on stderr: bars of the runs under way on a terminal, elsewhere a line for each run that has ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from truestep.pages.words import counted

if TYPE_CHECKING:
    from truestep.compare.order import Slot
    from truestep.compare.race import Event


@contextmanager
def shown() -> Iterator[Callable[[Event], None]]:
    """A listener to the race: bars on a terminal, elsewhere a line for each run that has ended; on stderr."""
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield _line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        runs = bars.add_task("runs", total=None)
        under_way: dict[Slot, TaskID] = {}

        def show(event: Event) -> None:
            kind, report = event.report["kind"], event.report
            if kind == "started":
                under_way[event.slot] = bars.add_task(f"{_name(event)}: starting", total=None)
                bars.update(runs, total=event.total, completed=event.done)
            elif kind == "ended":
                bars.remove_task(under_way.pop(event.slot))
                bars.update(runs, total=event.total, completed=event.done)
                console.print(_ended(event))
            elif kind == "attempt":
                quality = "" if report["quality"] is None else f", quality {float(report['quality']):.4g}"
                done, total = report["counts"]["attempts"], report["budget_attempts"]
                bars.update(under_way[event.slot], description=f"{_name(event)}{quality}", completed=done, total=total)
            elif kind in _PHASES:
                bars.update(under_way[event.slot], description=f"{_name(event)}: {_PHASES[kind]}")

        yield show


_PHASES = {"ready": "warming up", "begun": "running"}


def _line(event: Event) -> None:
    """A run that has ended, on a line of its own."""
    if event.record is not None:
        print(_ended(event), file=sys.stderr, flush=True)


def _name(event: Event) -> str:
    return f"{event.slot.candidate}, seed {event.slot.seed}"


def _ended(event: Event) -> str:
    """How a run has ended, in a line."""
    from truestep.run.clocks import primary_seconds  # noqa: PLC0415 - --help does not wait for it

    record = event.record
    assert record is not None
    seconds = primary_seconds(record["clocks"])
    counts = record["counts"]
    skipped = sum(counts["skipped_by_reason"].values())
    return (
        f"{event.done:3d}/{event.total}  {_name(event)}: {record['status']} after "
        f"{counted(counts['completed'], 'completed update')}, {skipped} skipped, {seconds:.3g} s"
    )
