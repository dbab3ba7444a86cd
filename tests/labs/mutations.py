"""Engines with one thing left out, and a watch on what fails then.

Each engine is a copy of the package with an exact edit, imported in a process of its own; the working tree is never touched.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
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
        edits=(edited("engine/work.py", "return 1.0 / (self.scale.value * self._divisor)", "return 1.0 / self._divisor"),),
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
        edits=(
            edited("engine/weights.py", "return _number(self._sum) / self._reference if self._reference else 1.0", "return 1.0"),
        ),
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
