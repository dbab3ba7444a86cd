"""What verify costs beyond the attempts that it compares: one mixed, one plain float32 and one float64 update a window.

Both sides run in turn in one process. What one more window costs is the median of all windows that follow the first few, and what
the verdict takes longer for each of them, in seconds of the processor. What verify costs once, above all counting the roundings
of the first window, is printed apart.

    python benchmarks/verify_cost.py [--task bytes-lm] [--policy bf16] [--attempts 4 20] [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from truestep.run.beginning import beginning_of
from truestep.run.isolation import seed_all
from truestep.tasks import load
from truestep.verification.comparing import Comparison
from truestep.verification.reference import _doubled, _doubles, _float32, _gradients
from truestep.verification.subject import Full, Subject
from truestep.verification.subject_task import full_batches
from truestep.verification.subject_update import subject_of_update

MOST = 1.2
"""What a window may cost: the computations that are compared, and a fifth."""

Side = Callable[[Subject], tuple[Callable[[Full], object], Callable[[], object]]]
"""What is done with each window, and what at the end."""


def prepared(name: str, policy: str, attempts: int) -> tuple[Subject, list[Full]]:
    """A task's subject and its windows, made beforehand: reading data is no part of either side."""
    task = load(name)
    seed_all(0, torch.device("cpu"))
    cpu = torch.device("cpu")
    begun = beginning_of(task, policy, microbatches=None, seed=0, device=cpu, scale=None, allow_underflow=False)
    return subject_of_update(begun.update, title=name), list(full_batches(task, begun, seed=0, attempts=attempts))


def bare(subject: Subject) -> tuple[Callable[[Full], object], Callable[[], object]]:
    """The three computations of each window and nothing else."""
    trained = subject.named().trained

    def attempt(full: Full) -> None:
        with subject.in_float32():
            with _float32(subject.device):
                _gradients(subject, full, trained)
            doubles = full._replace(window=_doubles(full.window), joined=_doubles(full.joined))
            with _doubled(subject, trained), _float32(subject.device):
                _gradients(subject, doubles, trained)
        subject.attempt(full.window)

    return attempt, lambda: None


def verified(subject: Subject) -> tuple[Callable[[Full], object], Callable[[], object]]:
    """As `truestep.verify` does, from the first window to the verdict."""
    comparison = Comparison(subject)
    return comparison.attempt, comparison.result


class Spent(NamedTuple):
    """Seconds of the processor."""

    first: float
    """All of the first few windows."""
    more: list[float]
    """Each window that followed."""
    verdicts: tuple[float, float]
    """After the first few, and after all."""


def spent(side: Side, subject: Subject, fulls: list[Full], *, few: int) -> Spent:
    """One side, once."""
    attempt, verdict = side(subject)
    first = [seconds(partial(attempt, full)) for full in fulls[:few]]
    soon = seconds(verdict)
    more = [seconds(partial(attempt, full)) for full in fulls[few:]]
    return Spent(sum(first), more, (soon, seconds(verdict)))


def seconds(function: Callable[[], object]) -> float:
    """What it takes."""
    start = time.process_time()
    function()
    return time.process_time() - start


def one_more(every: list[Spent]) -> float:
    """What a window costs."""
    verdicts = [(late - soon) / len(each.more) for each in every for soon, late in [each.verdicts]]
    return statistics.median(window for each in every for window in each.more) + statistics.median(verdicts)


def main() -> int:
    """Prints, of each side, what one more window costs, and what verify costs once beside its windows; 1 beyond `MOST`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="bytes-lm")
    parser.add_argument("--policy", default="bf16")
    parser.add_argument("--attempts", type=int, nargs=2, default=(4, 20), metavar=("FEW", "MANY"))
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    few, many = asked.attempts
    found: dict[Side, list[Spent]] = {bare: [], verified: []}
    for _ in range(asked.rounds + 1):
        for side, every in found.items():
            every.append(spent(side, *prepared(asked.task, asked.policy, many), few=few))
    plain, more = (one_more(every[1:]) for every in found.values())  # the first round warms up
    once = statistics.median(each.first + each.verdicts[0] for each in found[verified][1:]) - few * more
    print(f"one more window of {asked.task} under {asked.policy}, in CPU ms")
    print(f"{1e3 * plain:.2f} bare, {1e3 * more:.2f} verified, {more / plain:.3f} times; once {1e3 * once:.1f}")
    return int(more > MOST * plain)


if __name__ == "__main__":
    raise SystemExit(main())
