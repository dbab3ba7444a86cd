"""The benchmarks that are programs of their own: what each prints is its table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import Aim, Table


@dataclass(frozen=True, kw_only=True)
class Program:
    """One of them, and what it is called with."""

    title: str
    file: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = None
    """None: it is left out of a quick measurement."""
    judges: str | None = None
    """The aim that its exit code tells: 0 met, 1 missed; None where it judges none."""


PREDICTED = ("bytes-lm:bf16", "bytes-lm:bf16-master", "digits-conv:bf16", "deep:bf16")
"""What is predicted and measured here; the program itself takes many more."""
VERIFY = "a window costs at most the computations that it compares and 20 %"
PROGRAMS = {
    "verify": Program(
        title="What verify costs", file="verify_cost.py", arguments=("--attempts", "4", "12", "--rounds", "3"), judges=VERIFY
    ),
    "verify-digits": Program(
        title="What verify costs on a small task",
        file="verify_cost.py",
        arguments=("--task", "digits", "--rounds", "5"),
        judges=VERIFY,
    ),
    "verify-logistic": Program(
        title="What verify costs on the smallest task",
        file="verify_cost.py",
        arguments=("--task", "logistic", "--rounds", "9"),
        judges=VERIFY,
    ),
    "inspect": Program(title="What inspect costs", file="inspect_cost.py", arguments=("1",)),
    "prediction": Program(
        title="Predicted beside measured memory", file="memory_prediction.py", arguments=("--quick", "--only", *PREDICTED)
    ),
    "page": Program(
        title="What the page of a comparison costs",
        file="page.py",
        judges="opens in 2 s and is below 6 MB",
    ),
}


def tables(name: str, *, quick: bool) -> list[Table]:
    """That of one program; its own words where it failed."""
    program = PROGRAMS[name]
    arguments = program.quick if quick else program.arguments
    if arguments is None:
        return [Table(title=program.title, how=f"`{program.file}`: left out of a quick measurement.")]
    file = Path(__file__).with_name(program.file)
    ended = subprocess.run([sys.executable, file, *arguments], capture_output=True, text=True, check=False)
    return [table_of(program, arguments, ended.returncode, ended.stdout, ended.stderr)]


def table_of(program: Program, arguments: Sequence[str], code: int, printed: str, said: str) -> Table:
    """The table of what a program printed."""
    how = f"`python benchmarks/{' '.join([program.file, *arguments])}`; its first lines say what it does."
    if code not in (0, 1) or (code == 1 and (program.judges is None or not printed)):
        last = (said.strip().splitlines() or ["it said nothing"])[-1]
        return Table(title=program.title, how=f"{how} **Not measured**: exit code {code}: {last}", printed=printed or None)
    verdict = () if program.judges is None else (Aim(text=program.judges, met=code == 0, found="as its figures say"),)
    return Table(title=program.title, how=how, printed=printed, aims=verdict)
