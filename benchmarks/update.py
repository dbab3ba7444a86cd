"""One whole update at three widths, beside a hand-written loop, Accelerate, Fabric and the Trainer of Transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from benchmarks.fixed import Clock, fixed, way
from benchmarks.rounds import Spread, ratios, taking_turns
from benchmarks.table import Aim, Table

SETTINGS = ((64, 32, 60, 15), (512, 64, 20, 11), (2048, 64, 10, 5))
QUICK = ((64, 32, 20, 5),)
"""Width, batch, updates of a run, rounds."""
MOST_SECONDS = {64: 30.0, 512: 30.0, 2048: 90.0}
RIVALS = {"Accelerate": "accelerate", "Fabric": "fabric", "Trainer": "trainer"}
SAME = 0.05
"""The share of the way by which weights may differ: products in bfloat16 keep 8 bits, and AdamW's first steps go by signs."""

HOW = """
Four microbatches, bfloat16 autocast, clip to norm 1, fused AdamW, linear schedule: the fixed text of update_overhead.py,
whole runs of some updates, first ones and all, which take turns in one process, in an order drawn anew each round. One
thread, seconds of the processor; `by the wall` is the same ratio by a wall clock. Ratios to `hand` of the same round,
median [5 %, 95 %]; `hand again` is the noise. truestep also counts, looks at every element, keeps what a skip would need,
and returns the loss.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contender at one width; no numbers for one that is not installed."""

    width: int
    batch: int
    contender: str
    absent: str | None = None
    ms: float | None = None
    ratio: Spread | None = None
    wall: Spread | None = None
    apart: float | None = None
    """From the weights of `hand`, as a share of the way that they have gone."""


def available(module: Any) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """The contenders of the fixed file that run here, and why others do not."""
    found = {"hand": module.hand, "hand again": module.hand, "truestep": module.ours}
    absent = {}
    for name, function in RIVALS.items():
        try:
            found[name] = _proven(module, function)
        except ImportError as error:
            absent[name] = str(error)
    return found, absent


def _proven(module: Any, function: str) -> Callable[[], Any]:
    """The contender, once it has run; ImportError where it lacks its package."""
    run: Callable[[], Any] = getattr(module, function)
    run()
    return run


class Contender:
    """A contender whose runs are timed by the processor and by the wall, and whose weights are kept."""

    def __init__(self, run: Callable[[], Any], clock: Clock) -> None:
        self._run, self._clock = run, clock
        self.wall: list[float] = []
        self.weights: list[Any] = []

    def __call__(self) -> float:
        """Seconds of the processor."""
        seconds, self.weights = self._run()
        self.wall.append(self._clock.wall_seconds())
        return float(seconds)


def at_width(width: int, batch: int, updates: int, *, rounds: int, most_seconds: float) -> list[Row]:
    """All contenders."""
    module: ModuleType | Any = fixed("update_overhead", width, batch, updates)
    clock = Clock()
    module.time = clock
    runs, absent = available(module)
    contenders = {name: Contender(run, clock) for name, run in runs.items()}
    spent = taking_turns(contenders, rounds=rounds, most_seconds=most_seconds)
    begun, wanted = list(module.make()[0].parameters()), contenders["hand"].weights
    rows = [Row(width=width, batch=batch, contender=name, absent=why) for name, why in absent.items()]
    made = len(spent["hand"])
    for name, seconds in spent.items():
        apart = way(contenders[name].weights, wanted, begun)
        assert apart <= SAME, f"{name}: the weights differ by {apart:.3f} of their way"
        rows.append(
            Row(
                width=width,
                batch=batch,
                contender=name,
                ms=Spread.of(seconds).median / updates * 1e3,
                ratio=ratios(seconds, spent["hand"]),
                wall=ratios(contenders[name].wall[-made:], contenders["hand"].wall[-made:]),
                apart=apart,
            )
        )
    return rows


def measure(*, quick: bool) -> list[Row]:
    """Width after width."""
    rows = []
    for width, batch, updates, rounds in QUICK if quick else SETTINGS:
        rows += at_width(width, batch, updates, rounds=rounds, most_seconds=10.0 if quick else MOST_SECONDS[width])
    return rows


def ratio_of(rows: list[Row], width: int, contender: str) -> Spread | None:
    """That of a contender at a width."""
    return next((each.ratio for each in rows if (each.width, each.contender) == (width, contender)), None)


def aims(rows: list[Row]) -> tuple[Aim, ...]:
    """Whether an update costs no more than one by hand, and less than one by others."""
    widths = sorted({each.width for each in rows})
    said, inside, below = [], [], []
    for width in widths:
        ours, again = ratio_of(rows, width, "truestep"), ratio_of(rows, width, "hand again")
        assert ours is not None
        assert again is not None
        inside.append(ours.median <= max(1.0, again.high))
        said.append(f"{width}: {ours.median:.3f}, and by hand again {again.text()}")
    others, missing = [], []
    for width in widths:
        ours = ratio_of(rows, width, "truestep")
        assert ours is not None
        for name in RIVALS:
            theirs = ratio_of(rows, width, name)
            if theirs is None:
                missing.append(name)
            else:
                below.append(ours.median < theirs.median)
                others.append(f"{width}: {ours.median:.3f} and {name} {theirs.median:.3f}")
    verdict = False if not all(below) else None if missing else True
    return (
        Aim(text="within the spread of the hand-written loop at all widths", met=all(inside), found="; ".join(said)),
        Aim(
            text="below Accelerate, Fabric and Trainer at all widths",
            met=verdict,
            found="; ".join(others + [f"{name} is not installed" for name in dict.fromkeys(missing)]),
        ),
    )


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    where = f"{row.width}, {row.batch}"
    if row.ms is None or row.ratio is None or row.wall is None or row.apart is None:
        return where, row.contender, "", f"not measured: {row.absent}", "", ""
    return where, row.contender, f"{row.ms:.3f}", row.ratio.text(), row.wall.text(), f"{row.apart:.1e}"


def table_of(rows: list[Row]) -> Table:
    """The table of what was measured."""
    return Table(
        title="One whole update",
        how=HOW,
        columns=("width, batch", "contender", "ms an update", "ratio to hand", "by the wall", "weights apart"),
        rows=tuple(cells(row) for row in rows),
        aims=aims(rows),
    )


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    return [table_of(measure(quick=quick))]
