"""The page of results, written from what was measured alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from benchmarks import machine
from benchmarks.table import Table


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a part gave."""

    name: str
    seconds: float
    """By the wall."""
    processor_seconds: float
    """Of its processes together."""
    tables: tuple[Table, ...] = ()
    failed: str | None = None
    """Why there are no tables."""


@dataclass(kw_only=True)
class Measured:
    """All parts, and the machine's load around them."""

    before: str
    after: str | None = None
    parts: list[Part] = field(default_factory=list)

    @staticmethod
    def begin() -> Measured:
        """Nothing yet."""
        return Measured(before=machine.load())

    def end(self) -> Measured:
        """All has been measured."""
        self.after = machine.load()
        return self


def surroundings(found: Measured) -> str:
    """On what, with what, when, and beside what else."""
    seconds, processor = (sum(getattr(part, kind) for part in found.parts) for kind in ("seconds", "processor_seconds"))
    return "\n".join(
        [
            f"* Measured on {datetime.now(UTC):%Y-%m-%d} in {seconds:.0f} s, {processor:.0f} s of the processor.",
            f"* Machine: {machine.processor()}, {machine.memory_gigabytes():.0f} GB; {machine.accelerator()}.",
            f"* Versions: {machine.versions()}.",
            f"* Load of the machine over 1, 5 and 15 minutes before: {found.before}; after: {found.after}.",
        ]
    )


def verdicts(found: Measured) -> str:
    """The aims of all parts, shortly."""
    lines = []
    for part in found.parts:
        if part.failed is not None:
            lines.append(f"| {part.name} | | not measured |")
        for table in part.tables:
            for aim in table.aims:
                verdict = {True: "met", False: "**missed**", None: "not judged"}[aim.met]
                lines.append(f"| {table.title} | {aim.text} | {verdict} |")
    return "\n".join(["| | aim | |", "| --- | --- | --- |", *lines]) if lines else "None of what was measured has an aim."


def page(found: Measured, *, quick: bool) -> str:
    """The whole page as Markdown."""
    how = "`make bench-gpu`" if any(part.name.startswith("gpu-") for part in found.parts) else "`make bench`"
    caution = "\n\nA quick measurement, with settings that are too small to judge by." if quick else ""
    sections = [
        f"# What truestep costs\n\nWritten by {how}; every figure on this page is as it was measured.{caution}",
        surroundings(found),
        f"## The aims\n\n{verdicts(found)}",
        "## The measurements",
    ]
    for part in found.parts:
        if part.failed is not None:
            sections.append(f"### {part.name}\n\nNot measured: {part.failed}")
        sections += [table.markdown() for table in part.tables]
    return "\n\n".join(sections) + "\n"
