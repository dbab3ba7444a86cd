"""The highest point of memory of one update, beside a hand-written loop and other people's, to the byte of torch's allocator."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.fixed import fixed
from benchmarks.table import Aim, Table, most

SETTINGS = ((64, 32), (512, 64), (2048, 64))
QUICK = ((64, 32),)
"""Width, batch."""
UPDATES, FIRST = 4, 2
"""Of a run; those before the mark."""
CONTENDERS = ("hand", "ours", "accelerate", "fabric", "trainer")
NAMES = {"hand": "hand", "ours": "truestep", "accelerate": "Accelerate", "fabric": "Fabric", "trainer": "Trainer"}
MARK = 7_777_777
"""Bytes that nothing else asks for: they are allocated and freed in the first loss of the later updates."""
MORE = 1.01

HOW = f"""
The fixed text of update_overhead.py again. Bytes of tensors above those of the data, from each
allocation that torch's profiler notes on the CPU, so that it is exact and no noise; workspaces inside of kernels are not in
it, and are the same kernels' for all. `first` is the highest point of the first {FIRST} updates, in which the moments are
made and truestep keeps a copy of the weights for its first step; `later` that of the others. Ratios to `hand`.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contender at one width; no numbers for one that is not installed."""

    width: int
    contender: str
    absent: str | None = None
    first_bytes: int | None = None
    later_bytes: int | None = None


def peaks(changes: Iterable[int]) -> tuple[int, int]:
    """The highest sums of changes in bytes, before and after the first mark.

    >>> peaks([100, 50, -50, MARK, -MARK, 20, -20])
    (150, 120)
    """
    held = highest = 0
    first = None
    for change in changes:
        if change == MARK and first is None:
            first, highest = highest, held
        if abs(change) == MARK:
            continue
        held += change
        highest = max(highest, held)
    assert first is not None, "the run came to no mark"
    return first, highest


def changes_of(module: Any, function: str) -> list[int]:
    """What a contender allocates (and, below 0, frees) of tensors, in bytes, in its order."""
    loss, calls = module.loss_fn, iter(range(10**6))

    def marked(*arguments: Any) -> Any:
        if next(calls) == FIRST * module.MICRO:
            torch.empty(MARK, dtype=torch.uint8)
        return loss(*arguments)

    module.loss_fn = marked
    gc.collect()
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            getattr(module, function)()
    finally:
        module.loss_fn = loss
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    return [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]


def row(module: Any, function: str) -> Row:
    """One contender."""
    try:
        first, later = peaks(changes_of(module, function))
    except ImportError as error:
        return Row(width=module.WIDTH, contender=NAMES[function], absent=str(error))
    return Row(width=module.WIDTH, contender=NAMES[function], first_bytes=first, later_bytes=later)


def aims(rows: list[Row]) -> tuple[Aim, ...]:
    """Whether truestep takes no more than a loop by hand."""
    found: dict[str, list[tuple[str, float]]] = {"first_bytes": [], "later_bytes": []}
    for hand in (each for each in rows if each.contender == "hand"):
        ours = next(each for each in rows if (each.width, each.contender) == (hand.width, "truestep"))
        for kind, list_of in found.items():
            list_of.append((f"width {hand.width}", getattr(ours, kind) / getattr(hand, kind)))
    return (
        most("at most the hand-written loop's and 1 %, in later updates", MORE, found["later_bytes"]),
        most("at most the hand-written loop's and 1 %, in the first updates", MORE, found["first_bytes"]),
    )


def table_of(rows: list[Row]) -> Table:
    """The table of what was measured."""
    hands = {each.width: each for each in rows if each.contender == "hand"}
    lines = []
    for each in rows:
        hand = hands[each.width]
        if each.first_bytes is None or each.later_bytes is None or hand.first_bytes is None or hand.later_bytes is None:
            lines.append((str(each.width), each.contender, f"not measured: {each.absent}", "", "", ""))
            continue
        later, first = each.later_bytes, each.first_bytes
        shares = f"{later / hand.later_bytes:.3f}", f"{first / hand.first_bytes:.3f}"
        lines.append((str(each.width), each.contender, f"{later / 1e6:.2f}", shares[0], f"{first / 1e6:.2f}", shares[1]))
    return Table(
        title="Peak memory of an update",
        how=HOW,
        columns=("width", "contender", "later, MB", "ratio", "first, MB", "ratio"),
        rows=tuple(lines),
        aims=aims(rows),
    )


def measure(*, quick: bool) -> list[Row]:
    """Width after width."""
    modules = [fixed("update_overhead", width, batch, UPDATES) for width, batch in (QUICK if quick else SETTINGS)]
    return [row(module, function) for module in modules for function in CONTENDERS]


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    return [table_of(measure(quick=quick))]
