"""A table as values: what a page writes as HTML, and what a figure gives a reader who does not see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell: the words that are shown and, where they show a number of the records, that number unrounded."""

    words: str
    value: float | int | None = None
    """The number behind the words, as the records hold it; None where the words show none."""
    below: tuple[Cell, ...] = ()
    """Quieter lines under it."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A caption, the columns' names, and rows whose first cell names the row."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        """A row of another width is our mistake."""
        assert all(len(row) == len(self.columns) for row in self.rows), self.caption

    @classmethod
    def of(cls, caption: str, columns: Iterable[str], rows: Iterable[tuple[str, Iterable[Cell]]]) -> Table:
        """A table whose rows are each a name and the cells behind it.

        >>> Table.of("Runs", ["candidate", "runs"], [("fp32", [Cell(words="7", value=7)])]).rows[0][0].words
        'fp32'
        """
        cells = tuple((Cell(words=name), *row) for name, row in rows)
        return cls(caption=caption, columns=tuple(columns), rows=cells)
