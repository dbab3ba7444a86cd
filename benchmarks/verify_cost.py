"""What verify costs beyond the attempts that it compares: one mixed, one plain float32 and one float64 update a window.

Both sides run in turn in one process, with few windows and with many, and what one more window costs is the slope of their
medians, in seconds of the processor: what else runs on the machine does not count. What verify costs once, above all counting
the roundings of the first window, is printed apart.

    python benchmarks/verify_cost.py [--task bytes-lm] [--policy bf16] [--attempts 4 20] [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from truestep.run.beginning import beginning_of
from truestep.run.isolation import seed_all
from truestep.tasks import load
from truestep.verification.comparing import Comparison
from truestep.verification.reference import _doubled, _doubles, _gradients
from truestep.verification.subject import Full, Subject
from truestep.verification.subject_task import full_batches
from truestep.verification.subject_update import subject_of_update

Side = Callable[[Subject, list[Full]], None]


def prepared(name: str, policy: str, attempts: int) -> tuple[Subject, list[Full]]:
    """A task's subject and its windows, made beforehand: reading data is no part of either side."""
    task = load(name)
    seed_all(0, torch.device("cpu"))
    cpu = torch.device("cpu")
    begun = beginning_of(task, policy, microbatches=None, seed=0, device=cpu, scale=None, allow_underflow=False)
    return subject_of_update(begun.update, title=name), list(full_batches(task, begun, seed=0, attempts=attempts))


def bare(subject: Subject, fulls: list[Full]) -> None:
    """The three computations of each window and nothing else."""
    trained = subject.named().trained
    for full in fulls:
        with subject.in_float32():
            _gradients(subject, full, trained)
            doubles = full._replace(window=_doubles(full.window), joined=_doubles(full.joined))
            with _doubled(subject, trained):
                _gradients(subject, doubles, trained)
        subject.attempt(full.window)


def verified(subject: Subject, fulls: list[Full]) -> None:
    """As `truestep.verify` does, from the first window to the verdict."""
    comparison = Comparison(subject)
    for full in fulls:
        comparison.attempt(full)
    assert comparison.result().passed


def main() -> None:
    """Prints, of each side, what one more window costs, and what verify costs once beside its windows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="bytes-lm")
    parser.add_argument("--policy", default="bf16")
    parser.add_argument("--attempts", type=int, nargs=2, default=(4, 20), metavar=("FEW", "MANY"))
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    few, many = asked.attempts
    seconds: dict[tuple[Side, int], list[float]] = {(side, count): [] for side in (bare, verified) for count in (few, many)}
    for _ in range(asked.rounds + 1):
        for (side, count), found in seconds.items():
            subject, fulls = prepared(asked.task, asked.policy, count)
            start = time.process_time()
            side(subject, fulls)
            found.append(time.process_time() - start)
    median = {which: statistics.median(found[1:]) for which, found in seconds.items()}  # the first round warms up
    more = {side: (median[side, many] - median[side, few]) / (many - few) for side in (bare, verified)}
    once = median[verified, few] - few * more[verified]
    times = more[verified] / more[bare]
    print(f"one more window of {asked.task} under {asked.policy}, in CPU ms")
    print(f"{1e3 * more[bare]:.2f} bare, {1e3 * more[verified]:.2f} verified, {times:.3f} times; once {1e3 * once:.1f}")


if __name__ == "__main__":
    main()
