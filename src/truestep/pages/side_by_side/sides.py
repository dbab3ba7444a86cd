"""Two comparisons as one value: A and B, and what holds between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from truestep.pages.comparison.clocks import Record
from truestep.pages.comparison.reading import Comparison
from truestep.pages.look.candidates import Look, looks
from truestep.pages.words import listing

NAMES = ("A", "B")

Standing = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sides:
    """Both comparisons; `between` is what `compare.between` says of them, as JSON values."""

    left: Comparison
    right: Comparison
    between: Mapping[str, Any]

    @property
    def candidates(self) -> tuple[str, ...]:
        """Those that both raced."""
        return tuple(self.between["candidates"])

    @property
    def emulated(self) -> frozenset[str]:
        """The candidates whose seconds say nothing on one side or both."""
        return self.left.emulated | self.right.emulated

    @property
    def labels(self) -> dict[str, str]:
        """Each shared candidate's name where seconds are shown."""
        return {name: f"{name} (emulated)" if name in self.emulated else name for name in self.candidates}

    @property
    def drawn(self) -> dict[str, Look]:
        """Each shared candidate's look."""
        return looks(self.candidates)

    @property
    def differing(self) -> frozenset[str]:
        """The names of what differs, as a page writes them."""
        return frozenset(one["field"].replace("_", " ") for one in self.between["differences"])

    @property
    def absent(self) -> tuple[str, ...]:
        """What was raced on one side alone, in sentences."""
        only = {"A": self.between["left_only"], "B": self.between["right_only"]}
        return tuple(f"Raced in {side} alone, and not shown: {listing(list(names))}." for side, names in only.items() if names)

    def standings(self) -> Iterator[tuple[str, Standing, Standing]]:
        """Each shared candidate with its line of either summary."""
        ours, theirs = ({one["candidate"]: one for one in side.summary["candidates"]} for side in (self.left, self.right))
        return ((name, ours[name], theirs[name]) for name in self.candidates)

    def records(self) -> list[Record]:
        """All runs of shared candidates, each under its candidate's name with its side's."""
        return [
            {**record, "candidate": together(record["candidate"], name)}
            for name, side in zip(NAMES, (self.left, self.right), strict=True)
            for record in side.records
            if record["candidate"] in self.candidates
        ]


def together(candidate: str, side: str) -> str:
    """A candidate's name where both sides are drawn.

    >>> together("bf16", "A")
    'bf16 in A'
    """
    return f"{candidate} in {side}"
