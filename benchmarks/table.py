"""What a part of the benchmarks gives: tables with their aims, as JSON between processes and as Markdown for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a table should show, and whether it does."""

    text: str
    met: bool | None
    """None: what it takes could not be measured."""
    found: str
    """The figures that say so."""

    def line(self) -> str:
        """It in one line."""
        verdict = {True: "met", False: "MISSED", None: "not judged"}[self.met]
        return f"* Aim: {self.text}: **{verdict}**; {self.found}."


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of results; all cells are text."""

    title: str
    how: str
    """What was measured, and how; its lines are broken anew."""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    aims: tuple[Aim, ...] = ()
    printed: str | None = None
    """What a program of its own printed, in place of columns and rows."""

    def record(self) -> dict[str, Any]:
        """It as JSON takes it."""
        return asdict(self)

    @staticmethod
    def read(record: dict[str, Any]) -> Table:
        """That of a record."""
        aims = tuple(Aim(**aim) for aim in record["aims"])
        rows = tuple(tuple(row) for row in record["rows"])
        return Table(**(record | {"columns": tuple(record["columns"]), "rows": rows, "aims": aims}))

    def markdown(self) -> str:
        """Heading, what was done, rows, aims."""
        how = textwrap.fill(" ".join(self.how.split()), 150, break_long_words=False, break_on_hyphens=False)
        parts = [f"### {self.title}", how]
        if self.printed is not None:
            parts.append(f"```\n{self.printed.rstrip()}\n```")
        if self.rows:
            lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
            parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        if self.aims:
            parts.append("\n".join(aim.line() for aim in self.aims))
        return "\n\n".join(parts)


def most(text: str, limit: float, found: Sequence[tuple[str, float]], digits: int = 3) -> Aim:
    """The aim that every figure, by its name, is at most `limit`; the worst and all that miss it are named."""
    if not found:
        return Aim(text=text, met=None, found="nothing was measured for it")
    name, worst = max(found, key=lambda each: each[1])
    missed = [f"{where} {figure:.{digits}f}" for where, figure in found if figure > limit]
    said = (
        f"worst {worst:.{digits}f} ({name})"
        if len(missed) < 2
        else f"missed by {len(missed)} of {len(found)}: {', '.join(missed)}"
    )
    return Aim(text=text, met=not missed, found=said)
