"""One whole update at three widths, beside a hand-written loop, Accelerate, Fabric and the Trainer of Transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.fixed import Clock, fixed, way
from benchmarks.rounds import Spread, ratios, taking_turns
from benchmarks.table import Aim, Table

SETTINGS = ((64, 32, 100, 17), (512, 64, 20, 15), (2048, 64, 5, 7))
QUICK = ((64, 32, 10, 3),)
"""Width, batch, updates of a run, rounds."""
MOST_SECONDS = {64: 50.0, 512: 40.0, 2048: 75.0}
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
    """One contender in one setting; no numbers for one that is not installed."""

    setting: str
    contender: str
    absent: str | None = None
    ms: float | None = None
    ratio: Spread | None = None
    beside: Spread | None = None
    """The ratio by the other clock: the wall's on the processor, the host's on a device."""
    apart: float | None = None
    """From the weights of `hand`, as a share of the way that they have gone."""


def available(module: Any) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """The contenders of the fixed file that run here, and why others do not."""
    found = {"hand": module.hand, "hand again": module.hand, "truestep": module.ours}
    absent = {}
    for name, function in RIVALS.items():
        run = getattr(module, function)
        try:
            run()
        except ImportError as error:
            absent[name] = str(error)
        else:
            found[name] = run
    return found, absent


class Contender:
    """A contender whose runs are timed by two clocks, and whose weights are kept."""

    def __init__(self, run: Callable[[], Any], clock: Clock) -> None:
        self._run, self._clock = run, clock
        self.beside: list[float] = []
        self.weights: list[Any] = []

    def __call__(self) -> float:
        """Seconds by the first."""
        seconds, self.weights = self._run()
        self.beside.append(self._clock.beside_seconds())
        return float(seconds)


def rows_of(module: Any, setting: str, *, rounds: int, most_seconds: float, clock: Clock) -> list[Row]:
    """All contenders of the fixed file, or of what is like it, timed by `clock`."""
    module.time = clock
    runs, absent = available(module)
    contenders = {name: Contender(run, clock) for name, run in runs.items()}
    spent = taking_turns(contenders, rounds=rounds, most_seconds=most_seconds)
    begun, wanted = list(module.make()[0].parameters()), contenders["hand"].weights
    rows = [Row(setting=setting, contender=name, absent=why) for name, why in absent.items()]
    made = len(spent["hand"])
    for name, seconds in spent.items():
        apart = way(contenders[name].weights, wanted, begun)
        assert apart <= SAME, f"{name}: the weights differ by {apart:.3f} of their way"
        rows.append(
            Row(
                setting=setting,
                contender=name,
                ms=Spread.of(seconds).median / module.UPDATES * 1e3,
                ratio=ratios(seconds, spent["hand"]),
                beside=ratios(contenders[name].beside[-made:], contenders["hand"].beside[-made:]),
                apart=apart,
            )
        )
    return rows


def measure(*, quick: bool) -> list[Row]:
    """Width after width."""
    rows = []
    for width, batch, updates, rounds in QUICK if quick else SETTINGS:
        module = fixed("update_overhead", width, batch, updates)
        most = 10.0 if quick else MOST_SECONDS[width]
        rows += rows_of(module, f"{width}, {batch}", rounds=rounds, most_seconds=most, clock=Clock())
    return rows


def median_of(rows: list[Row], setting: str, contender: str) -> float | None:
    """The median ratio of a contender."""
    ratio = next((each.ratio for each in rows if (each.setting, each.contender) == (setting, contender)), None)
    return None if ratio is None else ratio.median


def inside(rows: list[Row]) -> Aim:
    """Whether an update costs no more than one by hand, as far as that can be told."""
    said, verdicts = [], []
    for again in (each for each in rows if each.contender == "hand again" and each.ratio is not None):
        ours = median_of(rows, again.setting, "truestep")
        assert ours is not None
        assert again.ratio is not None
        verdicts.append(ours <= max(1.0, again.ratio.high))
        said.append(f"{again.setting}: {ours:.3f}, and by hand again {again.ratio.text()}")
    return Aim(text="within the spread of the hand-written loop in all settings", met=all(verdicts), found="; ".join(said))


def below(rows: list[Row]) -> Aim:
    """Whether it costs less than one by others."""
    said, verdicts = [], []
    for row in (each for each in rows if each.contender in RIVALS):
        ours = median_of(rows, row.setting, "truestep")
        assert ours is not None
        if row.ratio is None:
            said.append(f"{row.contender} was not measured")
        else:
            verdicts.append(ours < row.ratio.median)
            said.append(f"{row.setting}: {ours:.3f} and {row.contender} {row.ratio.median:.3f}")
    met = False if not all(verdicts) else None if len(verdicts) < len(said) else True
    return Aim(text="below Accelerate, Fabric and Trainer in all settings", met=met, found="; ".join(dict.fromkeys(said)))


def aims(rows: list[Row]) -> tuple[Aim, ...]:
    """Whether an update costs no more than one by hand, and less than one by others."""
    return inside(rows), below(rows)


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    if row.ms is None or row.ratio is None or row.beside is None or row.apart is None:
        return row.setting, row.contender, "", f"not measured: {row.absent}", "", ""
    return row.setting, row.contender, f"{row.ms:.3f}", row.ratio.text(), row.beside.text(), f"{row.apart:.1e}"


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
