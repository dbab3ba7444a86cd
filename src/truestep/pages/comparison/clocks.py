"""What a race is measured in: seconds or examples, read off a run's record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from truestep.pages.words import count, seconds

Record = Mapping[str, Any]
"""One line of records.jsonl."""


@dataclass(frozen=True, kw_only=True)
class Clock:
    """One unit of the race."""

    name: str
    noun: str
    axis: str
    field: str
    """Its name in a record's `to_target`."""
    spent: Callable[[Record], float]
    """What a run had used when it ended, whether or not it had reached the target."""
    words: Callable[[float], str]

    def reached(self, record: Record) -> float | None:
        """What the run had used at the target; None where it did not reach it.

        >>> EXAMPLES.reached({"to_target": {"examples": 6400}}), EXAMPLES.reached({"to_target": None})
        (6400.0, None)
        """
        return None if record["to_target"] is None else float(record["to_target"][self.field])


SECONDS = Clock(
    name="seconds",
    noun="train seconds",
    axis="train seconds, waste included",
    field="seconds",
    spent=lambda record: float(record["clocks"]["train"] + record["clocks"]["waste"]),  # as run/clocks.py has it
    words=seconds,
)
EXAMPLES = Clock(
    name="examples",
    noun="examples",
    axis="examples seen",
    field="examples",
    spent=lambda record: float(record["counts"]["examples_seen"]),
    words=lambda value: count(round(value)),
)
