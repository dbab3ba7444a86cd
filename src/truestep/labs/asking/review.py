"""What to ask next: first what was wrong, then what was unsure, then what was right so long ago that it may be forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from truestep.labs.asking.progress import Answered

DAY = timedelta(days=1)
LONGEST = 2**10 * DAY
Why = Literal["wrong", "unsure", "long ago"]
_ORDER: tuple[Why, ...] = ("wrong", "unsure", "long ago")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How one exercise stands with a learner."""

    last: Answered
    interval: timedelta
    """From the last answer until it is asked again, if it was right."""

    def due(self, now: datetime) -> Why | None:
        """Why it comes back now; None where it does not."""
        if not self.last.all_right:
            return "wrong"
        if not self.last.sure:
            return "unsure"
        return "long ago" if now - self.last.time >= self.interval else None


def standings(answered: Iterable[Answered]) -> dict[str, Standing]:
    """Of each exercise that was answered, by its name.

    The interval is a day after a first right answer and after any wrong one. A right one doubles it, if it came when the interval
    had passed: to answer the same three times in an hour is no proof of memory.
    """
    found: dict[str, Standing] = {}
    for each in answered:
        before = found.get(each.name)
        if before is None or not each.all_right or not before.last.all_right:
            interval = DAY
        elif each.time - before.last.time >= before.interval:
            interval = min(2 * before.interval, LONGEST)
        else:
            interval = before.interval
        found[each.name] = Standing(last=each, interval=interval)
    return found


def due(answered: Iterable[Answered], now: datetime) -> dict[str, Why]:
    """What comes back now and why: the wrong ones, the unsure ones, those of long ago; in each the longest overdue first."""
    every = standings(answered)
    waiting = {name: why for name, standing in every.items() if (why := standing.due(now)) is not None}
    return dict(
        sorted(
            waiting.items(), key=lambda item: (_ORDER.index(item[1]), every[item[0]].last.time + every[item[0]].interval, item[0])
        )
    )


def session(names: Sequence[str], answered: Sequence[Answered], now: datetime) -> tuple[str, ...]:
    """What a session over `names` asks: what is due of them, then what was never asked, in their own order."""
    known = {each.name for each in answered}
    back = [name for name in due(answered, now) if name in set(names)]
    return (*back, *(name for name in names if name not in known))
