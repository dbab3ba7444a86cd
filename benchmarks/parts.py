"""The parts of the benchmarks, each measured in a process of its own: python -m benchmarks.parts NAME OUT [--quick]."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.results import Part
from benchmarks.rounds import children_seconds
from benchmarks.table import Table

PARTS = {
    "tail": "tail",
    "update": "update",
    "peak": "peak",
    "weights": "weights",
    "events": "events",
    "audit": "audit_overhead",
    "traincheck": "audit_beside",
    "growth": "growths",
    "compare": "comparing",
    "verify": "programs",
    "verify-digits": "programs",
    "inspect": "programs",
    "prediction": "programs",
    "page": "programs",
}
"""The module of each."""
GPU_PARTS = {"gpu-tail": "gpu_tail", "gpu-update": "gpu_update", "gpu-growth": "gpu_growth"}
ROOT = Path(__file__).parents[1]


def measured(name: str, *, quick: bool) -> Part:
    """A part's tables, and the seconds that it took; where it failed, its last words in place of tables."""
    begun, before = time.perf_counter(), children_seconds()
    surroundings = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tables.json"
        command = [sys.executable, "-m", "benchmarks.parts", name, str(out), *(["--quick"] if quick else [])]
        ended = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
        spent = {"seconds": time.perf_counter() - begun, "processor_seconds": children_seconds() - before}
        if ended.returncode or not out.exists():
            last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}, without a word"])[-1]
            return Part(name=name, **spent, failed=last)
        return Part(name=name, **spent, tables=tuple(Table.read(each) for each in json.loads(out.read_text())))


def tables_of(name: str) -> Callable[..., list[Table]]:
    """What measures the part `name`; ImportError where it lacks a package."""
    module = (PARTS | GPU_PARTS)[name]
    found = importlib.import_module(f"benchmarks.{module}").tables
    return partial(found, name) if module == "programs" else found


def main() -> None:
    """Measure one part in this process, and write its tables."""
    warnings.filterwarnings("ignore")
    name, out, *rest = sys.argv[1:]
    found = tables_of(name)(quick="--quick" in rest)
    Path(out).write_text(json.dumps([table.record() for table in found]))


if __name__ == "__main__":
    main()
