"""An audit beside TrainCheck: the same script alone, under `truestep audit` and under each of TrainCheck's ways to trace it."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rounds import children_seconds
from benchmarks.table import Aim, Table

SCRIPT = """
import json, os, time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
layers = [layer for _ in range(2) for layer in (nn.Linear(64, 64), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
spent = []
for _ in range(int(os.environ["UPDATES"])):
    begun = time.process_time()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    spent.append((time.process_time() - begun) * 1e3)
with open(os.environ["SPENT"], "w") as file:
    json.dump(spent, file)
"""
WITHOUT_DRIVER = """
import torch.backends.cuda as cuda

known = type(cuda.cufft_plan_cache).__getattr__


def without_looking(self, name):
    if name.startswith("__"):
        raise AttributeError(name)
    return known(self, name)


type(cuda.cufft_plan_cache).__getattr__ = without_looking
"""
"""What lets TrainCheck walk through a torch that is built for CUDA, on a machine that has no driver for it."""

LONG, REFERENCE, FIRST = 300, 8, 3
"""Updates of a run, of one that is traced whole, and of those the ones that do not count."""

HOW = """
One script, a perceptron of three layers in bfloat16 autocast with AdamW, each time a process of its own that notes what
each of its updates takes of the processor; the median of the updates, and their mean. `truestep audit` needs no run before
it and names what it finds; it judges the first 24 updates and a few after each power of two. TrainCheck (with its default
options) traces a reference whole, infers invariants from that, and then traces for those alone, or every tenth update of
that; it checks the trace afterwards, which is not counted here. `before and after` is what the process takes of the
processor beside its updates.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way to run the script; no numbers where it could not be run."""

    name: str
    absent: str | None = None
    updates: int | None = None
    median_ms: float | None = None
    mean_ms: float | None = None
    around_seconds: float | None = None


def run(name: str, command: Sequence[str], folder: Path, updates: int, surroundings: Mapping[str, str]) -> Row:
    """The script by `command`."""
    spent = folder / "spent.json"
    spent.unlink(missing_ok=True)
    before = children_seconds()
    environment = {**os.environ, **surroundings, "UPDATES": str(updates), "SPENT": str(spent)}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    whole = children_seconds() - before
    if not spent.exists():
        said = (ended.stdout + ended.stderr).strip().splitlines() or [f"exit code {ended.returncode}, without a word"]
        return Row(name=name, absent=said[-1])
    all_of_them = json.loads(spent.read_text())
    each = all_of_them[FIRST:]
    around = whole - sum(all_of_them) / 1e3
    return Row(
        name=name, updates=updates, median_ms=statistics.median(each), mean_ms=statistics.mean(each), around_seconds=around
    )


def traincheck(folder: Path, *, updates: int) -> list[Row]:
    """TrainCheck's ways, one after the other; one row without numbers where it is not installed."""
    if importlib.util.find_spec("traincheck") is None:
        return [Row(name="TrainCheck", absent="traincheck is not installed; it is in the dependency group `bench`")]
    (folder / "sitecustomize.py").write_text(WITHOUT_DRIVER)
    surroundings = {"PYTHONPATH": str(folder)}
    collect = [sys.executable, "-m", "traincheck.collect_trace", "--pyscript", "script.py", "--models-to-track", "model"]
    whole = run("TrainCheck, the reference", [*collect, "--output-dir", "reference"], folder, REFERENCE, surroundings)
    if whole.absent is not None:
        return [whole]
    infer = [sys.executable, "-m", "traincheck.infer_engine", "-f", "reference", "-o", "invariants.json"]
    before = children_seconds()
    subprocess.run(infer, cwd=folder, env=os.environ | surroundings, capture_output=True, check=False)
    rows = [whole, Row(name="TrainCheck, inferring", updates=0, around_seconds=children_seconds() - before)]
    narrow = [*collect, "--invariants", "invariants.json"]
    sampled = [*narrow, "--sampling-interval", "10", "--warm-up-steps", "10", "--output-dir", "tenth"]
    rows.append(run("TrainCheck, for its invariants", [*narrow, "--output-dir", "target"], folder, updates, surroundings))
    rows.append(run("TrainCheck, every tenth update", sampled, folder, updates, surroundings))
    return rows


def measure(*, quick: bool) -> list[Row]:
    """All ways; TrainCheck's, which take minutes, are left out of a quick measurement."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.py").write_text(SCRIPT)
        alone = [sys.executable, "script.py"]
        audit = [sys.executable, "-m", "truestep", "audit", "script.py"]
        rows = [
            run("alone", alone, folder, LONG, {}),
            run("truestep audit", audit, folder, LONG, {}),
        ]
        if quick:
            return [*rows, Row(name="TrainCheck", absent="left out of a quick measurement")]
        return [*rows, run("alone again", alone, folder, LONG, {}), *traincheck(folder, updates=LONG)]


def aims(rows: list[Row]) -> tuple[Aim, ...]:
    """Whether truestep's audit costs less than TrainCheck's cheapest way."""
    by_name = {each.name: each for each in rows}
    verdicts, said = [], []
    for kind in ("mean_ms", "median_ms"):
        ours = getattr(by_name["truestep audit"], kind)
        theirs = [getattr(each, kind) for each in rows if each.name.startswith("TrainCheck") and each.mean_ms is not None]
        if ours is not None and theirs:
            verdicts.append(ours < min(theirs))
            said.append(f"{kind.removesuffix('_ms')} {ours:.2f} ms and {min(theirs):.2f} ms")
    found = "; ".join(said) or "one of both was not measured"
    return (
        Aim(text="an update costs less than by TrainCheck's cheapest way", met=all(verdicts) if verdicts else None, found=found),
    )


def cells(row: Row, alone: float | None) -> tuple[str, ...]:
    """A row as text."""
    if row.absent is not None:
        return row.name, f"not measured: {row.absent}", "", "", ""
    around = "" if row.around_seconds is None else f"{row.around_seconds:.1f}"
    if row.median_ms is None or row.mean_ms is None or alone is None:
        return row.name, "", "", "", around
    return row.name, f"{row.median_ms:.2f}", f"{row.mean_ms:.2f}", f"{row.mean_ms / alone:.2f}", around


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    rows = measure(quick=quick)
    alone = next(each.mean_ms for each in rows if each.name == "alone")
    return [
        Table(
            title="An audit beside TrainCheck",
            how=HOW,
            columns=("", "median, ms", "mean, ms", "mean / alone", "before and after, s"),
            rows=tuple(cells(each, alone) for each in rows),
            aims=aims(rows),
        )
    ]
