"""How much of a run was judged, in numbers and in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from truestep.audit.events import Stepped
from truestep.audit.story import Story
from truestep.pages.words import counted

NOTHING = {"what": "the run", "why": "no optimizer of it made an attempt at an update"}
"""What is not judged where there was nothing to judge."""


def extent(stories: Sequence[Story]) -> dict[str, int]:
    """Counts over all processes: attempts, and the windows before them that were judged number by number."""
    attempts = sum(sum(each.totals.attempts.values()) for each in stories)
    completed = sum(sum(each.totals.completed.values()) for each in stories)
    return {
        "attempts": attempts,
        "completed": completed,
        "skipped": attempts - completed,
        "windows_judged": sum(step.judged is not None for each in stories for step in each.of(Stepped)),
        "windows_without_events": sum(each.totals.windows_left_out for each in stories),
    }


def judged(coverage: Mapping[str, Any]) -> str | None:
    """The line that says how much stands behind a report; None where the counts are not there.

    >>> judged({"attempts": 1000, "skipped": 2, "windows_judged": 64, "windows_without_events": 900})
    'judged: 64 of 1,000 windows number by number, 100 of 1,000 attempts (2 skipped) by the order of their calls'
    >>> judged({"attempts": 0, "skipped": 0, "windows_judged": 0, "windows_without_events": 0})
    'judged: nothing'
    """
    if "attempts" not in coverage:
        return None
    attempts = coverage["attempts"]
    if not attempts:
        return "judged: nothing"
    skipped = f" ({coverage['skipped']:,} skipped)" if coverage["skipped"] else ""
    windows = f"{coverage['windows_judged']:,} of {counted(attempts, 'window')} number by number"
    heard = f"{attempts - coverage['windows_without_events']:,} of {counted(attempts, 'attempt')}{skipped}"
    return f"judged: {windows}, {heard} by the order of their calls"
