"""One whole update on a CUDA device at four widths, its highest point of memory and its waits, beside other people's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from benchmarks import peak, update
from benchmarks.gpu import DeviceClock, Use, use_of
from benchmarks.gpu_loops import Loops
from benchmarks.table import Aim, Table, most

SETTINGS = ((64, 32, 100, 11), (512, 64, 100, 11), (2048, 256, 50, 9), (8192, 512, 10, 5))
QUICK = ((64, 32, 10, 3),)
"""Width, batch, updates of a run, rounds."""
POLICIES = ("bf16", "fp16")

HOW = """
Four microbatches that lie on the device, clip to norm 1, fused AdamW, linear schedule; `hand` uses torch.amp.GradScaler under
fp16. Whole runs of some updates, first ones and all, take turns in one process, in an order drawn anew each round; by the
wall, from a device that has done all it was given until it has done so again. `host` is the ratio by the host's processor
time. Ratios to `hand` of the same round, median [5 %, 95 %]; `hand again` is the noise. truestep also counts, looks at every
element, keeps what a skip would need, and returns the loss.
"""
HOW_USED = f"""
The same runs. `peak` is torch.cuda.max_memory_allocated above what there was before, first updates and all. `waits` counts,
over a run, how often the host waited for the device, as torch.cuda.set_sync_debug_mode tells it; for an update that is the
number below it. Memory of {peak.MORE:.2f} times the hand-written loop's is the most that is allowed.
"""


@dataclass(frozen=True, kw_only=True)
class Used:
    """What a contender takes beside time."""

    setting: str
    contender: str
    updates: int
    use: Use


def measure(*, quick: bool) -> tuple[list[update.Row], list[Used]]:
    """Setting after setting: times, and what is used."""
    rows, used = [], []
    for width, batch, updates, rounds in QUICK if quick else SETTINGS:
        for policy in POLICIES:
            loops, setting = Loops(width, batch, updates, policy), f"{width}, {batch}, {policy}"
            rows += update.rows_of(loops, setting, rounds=rounds, most_seconds=10.0 if quick else 40.0, clock=DeviceClock())
            runs, _ = update.available(loops)
            runs.pop("hand again")
            used += [Used(setting=setting, contender=name, updates=updates, use=use_of(run)) for name, run in runs.items()]
    return rows, used


def ratio(used: list[Used], row: Used) -> float:
    """The peak of a row to the hand-written loop's."""
    hand = next(each for each in used if (each.setting, each.contender) == (row.setting, "hand"))
    return row.use.peak_bytes / hand.use.peak_bytes


def aims(used: list[Used]) -> tuple[Aim, ...]:
    """Whether memory and waits are as few as they should be."""
    ours = [each for each in used if each.contender == "truestep"]
    return (
        most("at most the hand-written loop's memory and 1 %", peak.MORE, [(each.setting, ratio(used, each)) for each in ours]),
        most("at most one wait an update", 1.0, [(each.setting, each.use.waits / each.updates) for each in ours]),
    )


def used_table(used: list[Used]) -> Table:
    """Memory and waits."""
    return Table(
        title="Memory and waits of an update on the device",
        how=HOW_USED,
        columns=("setting", "contender", "peak, MB", "ratio to hand", "waits an update"),
        rows=tuple(
            (
                each.setting,
                each.contender,
                f"{each.use.peak_bytes / 1e6:.1f}",
                f"{ratio(used, each):.3f}",
                f"{each.use.waits / each.updates:.2f}",
            )
            for each in used
        ),
        aims=aims(used),
    )


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    rows, used = measure(quick=quick)
    times: Any = update.table_of(rows)
    columns = ("width, batch, policy", "contender", "ms an update", "ratio to hand", "host", "weights apart")
    return [replace(times, title="One whole update on the device", how=HOW, columns=columns), used_table(used)]
