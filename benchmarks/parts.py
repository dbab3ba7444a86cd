"""The parts of the benchmarks, each measured in a process of its own: python -m benchmarks.parts NAME OUT [--quick]."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from benchmarks.results import Part
from benchmarks.rounds import children_seconds
from benchmarks.table import Table

PARTS = {
    "tail": "tail",
    "update": "update",
    "spent": "spent",
    "peak": "peak",
    "weights": "weights",
    "events": "events",
    "audit": "audit_overhead",
    "traincheck": "audit_beside",
    "growth": "growths",
    "compare": "comparing",
    "verify": "programs",
    "verify-digits": "programs",
    "verify-logistic": "programs",
    "inspect": "programs",
    "prediction": "programs",
    "page": "programs",
}
"""The module of each."""
GPU_PARTS = {"gpu-tail": "gpu_tail", "gpu-update": "gpu_update", "gpu-growth": "gpu_growth"}
MOST_SECONDS = 900
"""Of a part; on a quiet machine none takes a third of it."""
ROOT = Path(__file__).parents[1]


def measured(name: str, *, quick: bool) -> Part:
    """A part's tables, and the seconds that it took; where it failed, its last words in place of tables."""
    begun, before = time.perf_counter(), children_seconds()
    surroundings = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tables.json"
        command = [sys.executable, "-m", "benchmarks.parts", name, str(out), *(["--quick"] if quick else [])]
        code, said = ended(command, surroundings)
        spent = {"seconds": time.perf_counter() - begun, "processor_seconds": children_seconds() - before}
        if code or not out.exists():
            last = (said.strip().splitlines() or [f"exit code {code}, without a word"])[-1]
            return Part(name=name, **spent, failed=last)
        return Part(name=name, **spent, tables=tuple(Table.read(each) for each in json.loads(out.read_text())))


def ended(command: list[str], surroundings: Mapping[str, str]) -> tuple[int, str]:
    """The exit code of a command and what it said on stderr; all that it started is ended with it, at the latest in time."""
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=surroundings, start_new_session=True, **streams) as process:
        try:
            _, said = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            return 1, f"it was ended after {MOST_SECONDS} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


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
