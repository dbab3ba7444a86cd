"""What verify costs beyond the attempts that it compares: one mixed, one plain float32 and one float64 update a window.

Both sides run in turn in one process, and the ratio is that of their medians, in seconds of the processor: what else runs on the
machine does not count.

    python benchmarks/verify_cost.py [--task bytes-lm] [--policy bf16] [--attempts 8] [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from truestep.run.beginning import beginning_of
from truestep.run.isolation import seed_all
from truestep.tasks import load
from truestep.verification.comparing import Comparison
from truestep.verification.reference import _doubled, _doubles, _gradients
from truestep.verification.subject import Full, Subject
from truestep.verification.subject_task import full_batches
from truestep.verification.subject_update import subject_of_update


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
    """Prints the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="bytes-lm")
    parser.add_argument("--policy", default="bf16")
    parser.add_argument("--attempts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    seconds: dict[str, list[float]] = {"bare": [], "verified": []}
    for _ in range(asked.rounds + 1):
        for name, side in (("bare", bare), ("verified", verified)):
            subject, fulls = prepared(asked.task, asked.policy, asked.attempts)
            start = time.process_time()
            side(subject, fulls)
            seconds[name].append(time.process_time() - start)
    medians = {name: statistics.median(found[1:]) for name, found in seconds.items()}  # the first round warms up
    for name, median in medians.items():
        print(f"{name:9s} {median / asked.attempts * 1000:8.2f} CPU ms a window")
    print(f"ratio     {medians['verified'] / medians['bare']:8.3f}")


if __name__ == "__main__":
    main()
