"""How the seconds of an attempt grow: with parameters, tensors, microbatches and attempts, beside what grows in any loop."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import ledger_cost
from benchmarks.growth import Growth, growth_of
from benchmarks.our_tail import Given, Tail
from benchmarks.rounds import seconds_of, taking_turns
from benchmarks.table import Aim, Table
from benchmarks.tail import Timer
from truestep import Ledger, Update
from truestep.ledger import read, summarize

ROOM = 0.05
"""Above 1, or above the exponent of what stands beside it: caches end, for any loop, within such a range."""

HOW = f"""
Seconds of the processor, one thread: medians of turns with what stands beside it; of attempts and lines, of one run from its
beginning. The exponent b of seconds = a n^b is fitted to all points by least squares of the logarithms, and `at the end` is
that between the last point and one at a quarter of it or less. Linear is an exponent of at most 1, or of what any loop has
there, and {ROOM}. Parameters and tensors: an attempt whose backward gives gradients that were made beforehand, clipped, fused
AdamW. Microbatches: `update(window)` of a small perceptron. Beside each stands the same loop by hand. Attempts: of a tiny
model, each with its line in a ledger; lines: a ledger's alone, written, and read and summed up.
"""


@dataclass(frozen=True, kw_only=True)
class Series:
    """What was measured of one number."""

    what: str
    numbers: tuple[int, ...]
    seconds: tuple[float, ...]
    beside: tuple[float, ...] | None = None
    """Of the loop beside it, at the same numbers."""

    @property
    def growth(self) -> Growth:
        """Ours."""
        return growth_of(self.numbers, self.seconds)

    @property
    def growth_beside(self) -> Growth | None:
        """The other's."""
        return None if self.beside is None else growth_of(self.numbers, self.beside)


class Sides:
    """An attempt with given gradients and the same by hand, on parameters of their own."""

    def __init__(self, parameters: int, tensors: int, device: str, timer: Timer) -> None:
        torch.manual_seed(0)
        self._timer = timer
        self._gradients = [torch.randn(parameters // tensors, device=device) * 1e-3 for _ in range(tensors)]
        self._tail = Tail(*self._made(), self._gradients, scale=None)
        self._params, self._optimizer = self._made()

    def _made(self) -> tuple[list[nn.Parameter], torch.optim.Optimizer]:
        params = [nn.Parameter(torch.randn_like(gradient)) for gradient in self._gradients]
        return params, torch.optim.AdamW(params, lr=1e-3, fused=True)

    def ours(self) -> float:
        """Seconds of an attempt."""
        return self._timer(self._attempt)

    def by_hand(self) -> float:
        """Seconds of what a loop by hand does of it."""
        return self._timer(self._update)

    def _attempt(self) -> None:
        self._tail.open()
        self._tail.close()

    def _update(self) -> None:
        Given.apply(self._gradients, *self._params).backward()
        nn.utils.clip_grad_norm_(self._params, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def of_sizes(
    what: str,
    sizes: Sequence[tuple[int, int]],
    numbers: Sequence[int],
    *,
    rounds: int,
    most_seconds: float,
    device: str = "cpu",
    timer: Timer = seconds_of,
) -> Series:
    """Over parameters or tensors."""
    ours, beside = [], []
    for parameters, tensors in sizes:
        sides = Sides(parameters, tensors, device, timer)
        spent = taking_turns({"ours": sides.ours, "hand": sides.by_hand}, rounds=rounds, warm=2, most_seconds=most_seconds)
        ours.append(statistics.median(spent["ours"]))
        beside.append(statistics.median(spent["hand"]))
        del sides
    return Series(what=what, numbers=tuple(numbers), seconds=tuple(ours), beside=tuple(beside))


def perceptron() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A small one, and its optimizer."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
    return network, torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)


def loss_of(network: Any, both: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Of a microbatch."""
    return nn.functional.cross_entropy(network(both[0]), both[1])


def of_microbatches(numbers: Sequence[int], *, rounds: int) -> Series:
    """Over the microbatches of a window."""
    update = Update(*perceptron(), loss=loss_of)
    network, optimizer = perceptron()
    microbatches = [(torch.randn(16, 64), torch.randint(0, 10, (16,))) for _ in range(max(numbers))]

    def by_hand(window: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for both in window:
            (loss_of(network, both) / len(window)).backward()
        optimizer.step()
        optimizer.zero_grad()

    ours, beside = [], []
    for number in numbers:
        window = microbatches[:number]
        contenders: dict[str, Callable[[], float]] = {
            "ours": lambda window=window: seconds_of(lambda: update(window)),
            "hand": lambda window=window: seconds_of(lambda: by_hand(window)),
        }
        spent = taking_turns(contenders, rounds=rounds, warm=2, most_seconds=3.0)
        ours.append(statistics.median(spent["ours"]))
        beside.append(statistics.median(spent["hand"]))
    return Series(what="microbatches", numbers=tuple(numbers), seconds=tuple(ours), beside=tuple(beside))


def marks(work: Iterable[object], numbers: Sequence[int]) -> Iterator[float]:
    """Seconds from the beginning to each of `numbers` pieces of work."""
    begun, wanted = time.process_time(), set(numbers)
    for number, _ in enumerate(work, start=1):
        if number in wanted:
            yield time.process_time() - begun


def of_attempts(numbers: Sequence[int], folder: Path) -> Series:
    """Over the attempts of a training with a ledger."""
    torch.manual_seed(0)
    network = nn.Linear(4, 1)
    update = Update(network, torch.optim.SGD(network.parameters(), lr=1e-3), loss=lambda network, x: network(x).square().mean())
    window = [torch.randn(2, 4)]
    with Ledger(folder / "attempts.jsonl", environment={}) as ledger:
        work = (ledger.record(update(window)) for _ in range(max(numbers)))
        return Series(what="attempts", numbers=tuple(numbers), seconds=tuple(marks(work, numbers)))


def of_lines(numbers: Sequence[int], folder: Path) -> list[Series]:
    """Over the lines of a ledger, written and read."""
    path = folder / "lines.jsonl"
    outcomes = ledger_cost.outcomes(max(numbers))
    with Ledger(path, environment={}) as ledger:
        written = tuple(marks((ledger.record(outcome) for outcome in outcomes), numbers))
    with path.open() as file:
        head = [next(file) for _ in range(numbers[-2] + 1)]  # what was run stands before the attempts
    (folder / "many.jsonl").write_text("".join(head))
    (folder / "few.jsonl").write_text("".join(head[: numbers[-3] + 1]))
    sizes = (("few.jsonl", numbers[-3]), ("many.jsonl", numbers[-2]))
    summed = [seconds_of(lambda name=name: summarize(read(folder / name))) for name, _ in sizes]
    return [
        Series(what="lines written", numbers=tuple(numbers), seconds=written),
        Series(what="lines summed up", numbers=tuple(number for _, number in sizes), seconds=tuple(summed)),
    ]


def measure(*, quick: bool) -> list[Series]:
    """All of them; a quick measurement leaves out the largest."""
    parameters = [10**k for k in (range(4, 7) if quick else range(4, 9))]
    tensors = [10, 100, 1000] if quick else [10, 100, 1000, 10_000]
    seconds = 1.0 if quick else 6.0
    rounds = 5 if quick else 21
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            of_sizes("parameters", [(n, 10) for n in parameters], parameters, rounds=rounds, most_seconds=seconds),
            of_sizes("tensors", [(10**6, n) for n in tensors], tensors, rounds=rounds, most_seconds=seconds),
            of_microbatches([1, 4, 16, 64] if quick else [1, 4, 16, 64, 256], rounds=rounds),
            of_attempts([100, 1000] if quick else [1000, 3000, 10_000, 20_000], folder),
            *of_lines([100, 1000, 10_000] if quick else [1000, 10_000, 100_000, 1_000_000], folder),
        ]


def limit_of(series: Series, kind: str) -> float:
    """The largest exponent that counts as linear."""
    beside = series.growth_beside
    return max(1.0, 1.0 if beside is None else getattr(beside, kind)) + ROOM


def aims(all_of_them: Sequence[Series]) -> tuple[Aim, ...]:
    """Whether each grows linearly at most."""
    missed, said = [], []
    for series in all_of_them:
        growth = series.growth
        said.append(f"{series.what} {growth.exponent:.2f}, at the end {growth.at_the_end:.2f}")
        if any(getattr(growth, kind) > limit_of(series, kind) for kind in ("exponent", "at_the_end")):
            missed.append(series.what)
    found = "; ".join(said) + (f"; not so for {', '.join(missed)}" if missed else "")
    return (Aim(text="linear in parameters, tensors, microbatches and attempts", met=not missed, found=found),)


def table_of(all_of_them: Sequence[Series]) -> Table:
    """The table of what was measured."""
    rows = []
    for series in all_of_them:
        beside = series.growth_beside
        points = ", ".join(f"{n:,}: {s * 1e3:.3g}" for n, s in zip(series.numbers, series.seconds, strict=True))
        own = f"{series.growth.exponent:.2f}", f"{series.growth.at_the_end:.2f}"
        others = ("", "") if beside is None else (f"{beside.exponent:.2f}", f"{beside.at_the_end:.2f}")
        rows.append((series.what, points, *own, *others))
    return Table(
        title="Growth",
        how=HOW,
        columns=("with", "ms at", "exponent", "at the end", "beside it", "at the end"),
        rows=tuple(rows),
        aims=aims(all_of_them),
    )


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    return [table_of(measure(quick=quick))]
