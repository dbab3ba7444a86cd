"""What a ledger costs: writing an attempt, summing a file up, and the memory of both, over many attempts.

usage: ledger_cost.py [ATTEMPTS]      (default 1,000,000: about 800 MB in a temporary folder, a minute or two)
Times are the process's own, so that other work on the machine counts for little. Memory is the growth of the resident set from
the 1 % mark on. Linux.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from truestep import Counts, Ledger, Outcome, Reason, Skip
from truestep.ledger import read, summarize

T = TypeVar("T")


def outcomes(attempts: int) -> Iterator[Outcome]:
    """A run in float16 of which one attempt in fifty is skipped; numbers with as many digits as real ones have."""
    counts = Counts()
    for number in range(attempts):
        skip = None
        if number % 50 == 49:
            skip = Skip(reason=Reason.BACKWARD, place="layers.3.mlp.weight", detail="inf in 3 of 4194304", curable=True)
        counts = counts.after(reason=skip and skip.reason, examples=64, tokens=65536).ticked(skip is None)
        yield Outcome(
            policy="fp16",
            skip=skip,
            loss=2.345678901234 + number * 1e-7,
            lr=(3e-4 * (1 - number / attempts),),
            grad_norm=None if skip else 1.23456789012 + number * 1e-8,
            grad_norm_clipped=None if skip else 1.0,
            loss_scale=65536.0,
            next_loss_scale=65536.0,
            weight=65536.0,
            weight_check="agrees with cross_entropy's mean over 16384",
            microbatches=4,
            examples=64,
            tokens=65536,
            seconds=0.123456789 + number * 1e-9,
            counts=counts,
        )


def resident_bytes() -> int:
    """The memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watched:
    """An iterable that looks at the memory after each hundredth of `total` items."""

    def __init__(self, items: Iterable[T], total: int, memory: Callable[[], int]) -> None:
        self.items, self.every, self.memory = items, max(1, total // 100), memory
        self.seen: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        """Each item."""
        for number, item in enumerate(self.items, start=1):
            yield item
            if number % self.every == 0:
                self.seen.append(self.memory())

    @property
    def growth(self) -> int:
        """From the first look to the greatest."""
        return max(self.seen) - self.seen[0]


def measure(path: Path, attempts: int, memory: Callable[[], int] = resident_bytes) -> dict[str, float]:
    """Write `attempts` to a new ledger, then sum it up."""
    watched = Watched(outcomes(attempts), attempts, memory)
    spent = 0.0
    with Ledger(path, environment={}) as ledger:
        for outcome in watched:
            started = time.process_time()
            ledger.record(outcome)
            spent += time.process_time() - started
    lines = Watched(read(path), attempts, memory)
    started = time.process_time()
    summary = summarize(iter(lines))
    reading = time.process_time() - started
    assert summary.counts.attempts == attempts
    return {
        "write_us": spent / attempts * 1e6,
        "bytes": path.stat().st_size / attempts,
        "write_growth": watched.growth,
        "summarize_us": reading / attempts * 1e6,
        "summarize_growth": lines.growth,
    }


def main() -> None:
    """Measure and print."""
    attempts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder) / "run.jsonl", attempts)
    print(f"{attempts:,} attempts, {found['bytes']:.0f} bytes each")
    print(f"writing      {found['write_us']:.1f} us an attempt   memory +{found['write_growth'] / 1e6:.2f} MB")
    print(f"summarizing  {found['summarize_us']:.1f} us an attempt   memory +{found['summarize_growth'] / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
