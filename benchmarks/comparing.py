"""What a comparison takes beyond the trainings that it consists of."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rounds import Spread, children_seconds
from benchmarks.table import Table

TASK, CANDIDATES, ATTEMPTS = "digits", ("fp32", "bf16"), 500
SEEDS, QUICK_SEEDS = 2, 1
BARE = f"""
import json, time
from truestep.run import Settings, train
from truestep.tasks.loading import load
begun, weights = time.process_time(), []
for seed in range({{seeds}}):
    for policy in {CANDIDATES}:
        settings = Settings(policy=policy, budget_attempts={{attempts}}, stop_at_target=False, device="cpu")
        weights.append(train(load({TASK!r}), settings, seed=seed).weights_digest)
print(json.dumps([time.process_time() - begun, sorted(weights)]))
"""

HOW = f"""
`truestep compare {TASK}` with {len(CANDIDATES)} candidates to the end of the budget, which gives each run a
process of its own, and the same runs one after the other in one process. Seconds of the processor, children included, median
[5 %, 95 %] of the rounds. Both end with the same weights, bit by bit. What a process takes to start is mostly the import of
torch.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One round."""

    runs: int
    bare_seconds: float
    """Of the runs alone."""
    start_seconds: float
    """Of a process that has imported what a run needs, and made none."""
    compare_seconds: float


def child(command: list[str], folder: Path) -> tuple[float, str]:
    """Seconds of a child's processor time, and what it printed."""
    before = children_seconds()
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return children_seconds() - before, ended.stdout


def measured(attempts: int, seeds: int) -> Row:
    """One round."""
    options = ["--seeds", str(seeds), "--budget-attempts", str(attempts), "--to-the-end", "--out", "out"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole, printed = child([sys.executable, "-c", BARE.format(attempts=attempts, seeds=seeds)], folder)
        bare, weights = json.loads(printed)
        compare = [sys.executable, "-m", "truestep", "compare", TASK, "--candidates", *CANDIDATES, *options]
        compared = child(compare, folder)[0]
        with (folder / "out" / "runs.csv").open() as file:
            assert sorted(row["weights_digest"] for row in csv.DictReader(file)) == weights, "the runs ended elsewhere"
        return Row(runs=len(weights), bare_seconds=bare, start_seconds=whole - bare, compare_seconds=compared)


def table_of(rows: list[Row]) -> Table:
    """The table of what was measured."""
    runs = rows[0].runs
    shown = {
        f"{runs} runs alone": [each.bare_seconds for each in rows],
        "a process that makes none": [each.start_seconds for each in rows],
        "the comparison": [each.compare_seconds for each in rows],
        "beyond its runs, for each run": [(each.compare_seconds - each.bare_seconds) / runs for each in rows],
        "beyond its runs and the start of their processes, for each run": [
            (each.compare_seconds - each.bare_seconds) / runs - each.start_seconds for each in rows
        ],
    }
    return Table(
        title="What a comparison adds to its runs",
        how=HOW,
        columns=("", "seconds"),
        rows=tuple((name, Spread.of(values).text(2)) for name, values in shown.items()),
    )


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    return [table_of([measured(50, QUICK_SEEDS) if quick else measured(ATTEMPTS, SEEDS) for _ in range(1 if quick else 2)])]
