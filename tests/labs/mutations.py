"""Engines with one thing left out, and who sees it: run as a script, it writes docs/mutations.md (minutes).

Each engine is a copy of the package with an exact edit, imported in a process of its own; the working tree is never touched.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mutations.md"
LAWS = sorted((ROOT / "tests" / "engine").glob("test_law_*.py"))
OPTIONS = (f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", "--assert=plain")
PATIENCE_SECONDS = 60.0
"""Of CPU, for one lab or one test: a loop that waits for what was left out would never end."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """In `file` of the package, the only place where `old` stands reads `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """What is left out, and what the engine does then."""

    does: str
    edits: tuple[Edit, ...]


def edited(file: str, old: str, new: str) -> Edit:
    return Edit(file=file, old=old, new=new)


MUTATIONS: dict[str, Mutation] = {
    "unscale": Mutation(
        does="the gradient keeps the loss scale",
        edits=(
            edited(
                "engine/work.py", "return 1.0 / (self.scale.value * self.shares.divisor())", "return 1.0 / self.shares.divisor()"
            ),
        ),
    ),
    "division": Mutation(
        does="a loss is not divided by the window's weight, where that is known before its backward",
        edits=(
            edited(
                "engine/weights.py",
                'return ratio if self._loss_is == "mean" else 1.0 / self._reference',
                "ratio, whole = (ratio, 1.0 / self._reference) if self._declared is None else (weight, 1.0)\n"
                '        return ratio if self._loss_is == "mean" else whole',
            ),
        ),
    ),
    "late-division": Mutation(
        does="a block that was not told its total is not divided by it at the end",
        edits=(edited("engine/weights.py", "return self._sum / self._reference if self._reference else 1.0", "return 1.0"),),
    ),
    "scale-update": Mutation(
        does="the loss scale stays what it is",
        edits=(edited("engine/update.py", "self.counts, self.scale = counts, self._next_scale(skip)", "self._next_scale(skip)"),),
    ),
    "clip-order": Mutation(
        does="the limit is held against the gradient before it is unscaled",
        edits=(
            edited(
                "engine/work.py",
                "factor, self._clipped = plan.clip(self._gradients, norm=norm, unit=self.unit)",
                "factor, clipped = plan.clip(self._gradients, norm=norm / self.unit, unit=1.0)\n"
                "        factor, self._clipped = factor * self.unit, clipped * self.unit",
            ),
        ),
    ),
    "clock-rule": Mutation(
        does="the clock of completed updates ticks on every attempt",
        edits=(
            edited("engine/clock.py", "return after.completed - before.completed", "return after.attempts - before.attempts"),
        ),
    ),
    "finite-check": Mutation(
        does="a gradient that is not finite is applied",
        edits=(
            edited(
                "engine/gradients.py",
                "return Verdict(norm=None)\n    if largest * unit >= FLOAT32_OVERFLOW:\n"
                "        return Verdict(norm=None, unscaling_overflows=True)",
                "return Verdict(norm=math.nan)",
            ),
        ),
    ),
    "buffer-restore": Mutation(
        does="what forwards wrote into buffers stays after a skip",
        edits=(
            edited("engine/work.py", "self._buffers.restore()\n        losses, terms", "losses, terms"),
            edited("engine/work.py", "self._store.clear()\n        self._buffers.restore()", "self._store.clear()"),
        ),
    ),
}


def copied(folder: Path, mutation: Mutation | None) -> Path:
    """A folder for the import path that holds the package with the edits; without any for None. Compiled files come along."""
    shutil.copytree(ROOT / "src" / "truestep", folder / "truestep", ignore=shutil.ignore_patterns(".*"))
    for edit in () if mutation is None else mutation.edits:
        file = folder / "truestep" / edit.file
        text = file.read_text(encoding="utf-8")
        assert text.count(edit.old) == 1, (
            f"{edit.file} has this {text.count(edit.old)} times, so it cannot be left out: {edit.old}"
        )
        file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return folder


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was run, by name, the quickest first; and of it what failed. Labs are called as such, tests by their pytest id."""

    ran: tuple[str, ...]
    failed: tuple[str, ...]

    def labs(self) -> tuple[str, ...]:
        """The labs that failed."""
        return tuple(name for name in self.failed if "::" not in name)

    def tests(self) -> tuple[str, ...]:
        """The tests that failed."""
        return tuple(name for name in self.failed if "::" in name)


def watch(folder: Path, labs: Sequence[str] | None, tests: Sequence[str]) -> Seen:
    """Runs labs (all for None) and tests by the package in `folder`, in a process that is forked after torch was loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "pytest"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, folder, labs, tests))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    finally:
        process.join()


def _answer(sender: Connection, folder: Path, labs: Sequence[str] | None, tests: Sequence[str]) -> None:
    assert "truestep" not in sys.modules
    sys.path.insert(0, str(folder))
    os.environ |= {"PYTHONPATH": str(folder), "TRUESTEP_FULL": "0", "TRUESTEP_SEED": "0"}
    assert Path(str(import_module("truestep").__file__)).is_relative_to(folder)
    watcher = Watcher()
    for lab in import_module("truestep.labs.shelf").labs():
        if labs is None or lab.name in labs:
            watcher.try_lab(lab)
    if tests:
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main([*OPTIONS, *tests], [watcher])
    sender.send(watcher.seen())


class Watcher:
    """Times what is tried, and notes what fails; a plugin of pytest."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def try_lab(self, lab: Any) -> None:
        """A lab fails where a value is not what theory gives, and where it cannot be run."""
        with self._timed(lab.name):
            try:
                holds = lab.run().holds
            except Exception:
                holds = False
        if not holds:
            self._failed.add(lab.name)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with self._timed(item.nodeid):
            yield

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_configure(self) -> None:
        """What a broken law is broken by need not be made small."""
        from hypothesis import Phase, settings  # noqa: PLC0415 - some engines are watched by labs alone

        settings.register_profile("mutated", phases=(Phase.explicit, Phase.generate), database=None, deadline=None)
        settings.load_profile("mutated")

    def seen(self) -> Seen:
        """All of it."""
        ran = sorted({*self._seconds, *self._failed}, key=lambda name: self._seconds.get(name, 0.0))
        return Seen(ran=tuple(ran), failed=tuple(name for name in ran if name in self._failed))

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        signal.signal(signal.SIGPROF, _end)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE_SECONDS)
        start = time.process_time()
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            self._seconds[name] = time.process_time() - start


def _end(number: int, frame: object) -> None:
    raise TimeoutError(f"no end in {PATIENCE_SECONDS:g} seconds of CPU")


@dataclass(frozen=True, kw_only=True)
class Row:
    """Who sees that something was left out: labs, the quickest first; laws by their files' names; a quick test."""

    labs: tuple[str, ...]
    laws: tuple[str, ...]
    test: str


def row_of(seen: Seen) -> Row:
    """A row of the table; the laws at least have to see it."""
    assert seen.tests(), "no law sees it"
    laws = {Path(test.split("::")[0]).stem.removeprefix("test_law_") for test in seen.tests()}
    quickest = min(
        seen.tests(), key=lambda test: "[" in test
    )  # of those without parameters, whose names are made up, if there are any
    return Row(labs=seen.labs(), laws=tuple(sorted(laws, key=lambda law: int(law.split("_")[0]))), test=quickest)


def everything() -> dict[str | None, Seen]:
    """What all labs and all laws say of each engine, and under None of the one with nothing left out."""
    names = (None, *MUTATIONS)
    with TemporaryDirectory() as root, ThreadPoolExecutor(2) as two:
        folders = [copied(Path(root, str(name)), None if name is None else MUTATIONS[name]) for name in names]
        return dict(zip(names, two.map(partial(watch, labs=None, tests=list(map(str, LAWS))), folders), strict=True))


HEAD = """# What sees a broken engine

A lab that could not fail would show nothing. Here the engine is broken on purpose, one thing left out at a time, and every lab
and every test of a [law](design.md) is run against it. A lab fails where what it measures is not what theory gives, or where it
cannot go on. With nothing left out, all pass.

Written by `python tests/labs/mutations.py`. `tests/labs/test_mutations.py` runs the first lab and the test of each row; under
`TRUESTEP_FULL=1` everything.

| left out | then | labs that fail | laws that fail | a quick test |
|---|---|---|---|---|
"""


def text(rows: Mapping[str, Row]) -> str:
    """The whole page."""
    return HEAD + "".join(f"| {name} | {MUTATIONS[name].does} | {_cells(row)} |\n" for name, row in rows.items())


def _cells(row: Row) -> str:
    labs = ", ".join(f"[{lab}](lessons.md#{lab})" for lab in row.labs) or "none yet"
    laws = ", ".join(law.replace("_", " ") for law in row.laws)
    return f"{labs} | {laws} | `{row.test.removeprefix('tests/engine/')}`"


def read(page: str) -> dict[str, Row]:
    """The rows of a page, by what is left out."""
    rows = {}
    for line in page.removeprefix(HEAD).splitlines():
        name, _, labs, laws, test = (cell.strip() for cell in line.strip("| ").split(" | "))
        rows[name] = Row(
            labs=tuple(re.findall(r"\[([\w-]+)\]", labs)),
            laws=tuple(law.replace(" ", "_") for law in laws.split(", ")),
            test=f"tests/engine/{test.strip('`')}",
        )
    return rows


if __name__ == "__main__":
    found = everything()
    assert not found[None].failed, f"these fail with nothing left out: {found[None].failed}"
    PAGE.write_text(text({name: row_of(seen) for name, seen in found.items() if name is not None}), encoding="utf-8")
