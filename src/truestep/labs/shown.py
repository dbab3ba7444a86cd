"""What a lab shows: values that were measured beside those that theory gives, wrong ways, edges, tables.

No answer is stored: `expected` is computed from the setting by arithmetic that does not go through the engine, `measured` comes
out of it, and `because` says how the one follows and where the tolerance comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Value = float | int | str | bool | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A value that was measured beside the one that theory gives.

    Numbers, and tuples of them, agree if each lies within `within` of its expected one; 0 asks for equality to the bit. Words
    and truths are equal or not.
    """

    what: str
    expected: Value
    measured: Value
    within: float = 0.0
    because: str

    @property
    def holds(self) -> bool:
        """Whether they agree; False wherever a number that is not finite stands beside another one."""
        expected, measured = _numbers(self.expected), _numbers(self.measured)
        if expected is None or measured is None:
            return self.expected == self.measured
        pairs = list(zip(expected, measured, strict=False))
        return len(expected) == len(measured) and all(each == other or abs(each - other) <= self.within for each, other in pairs)


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A wrong way that was run: what it does, what came of it as theory has it, and how much that is beside the right way."""

    how: str
    check: Check
    damage: str


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A setting, run, in which the claim is no longer true or says nothing."""

    where: str
    check: Check


@dataclass(frozen=True, kw_only=True)
class Table:
    """What happened, a row for each stage or case; numbers are as they were measured, None where there is none."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def column(self, name: str) -> tuple[Any, ...]:
        """One column's values, from the top."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a lab's run showed."""

    checks: tuple[Check, ...]
    wrong: tuple[Wrong, ...] = ()
    edges: tuple[Edge, ...] = ()
    tables: tuple[Table, ...] = ()

    def every_check(self) -> Iterator[Check]:
        """The checks of the claim, of the wrong ways, of the edges."""
        yield from self.checks
        yield from (each.check for each in self.wrong)
        yield from (each.check for each in self.edges)

    @property
    def holds(self) -> bool:
        """Whether all that was measured is what theory gives."""
        return all(check.holds for check in self.every_check())

    def measured(self, what: str) -> Any:
        """The value measured under the name `what`: what the answers of exercises are computed from."""
        (found,) = (check.measured for check in self.every_check() if check.what == what)
        return found

    def table(self, title: str) -> Table:
        """The table of that title."""
        (found,) = (table for table in self.tables if table.title == title)
        return found


def _numbers(value: Value) -> tuple[float, ...] | None:
    """A value's numbers; None for words and truths."""
    each = value if isinstance(value, tuple) else (value,)
    return None if any(isinstance(one, (str, bool)) for one in each) else each  # type: ignore[return-value] # all are numbers now
