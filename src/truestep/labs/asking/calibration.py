"""Where confidence and correctness part: of the answers given with each confidence, how many were right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scipy.stats import binomtest

from truestep.labs.asking.progress import Answered
from truestep.labs.asking.reading import CONFIDENCE
from truestep.pages.words import counted
from truestep.stats.interval import Interval

FEW = 3
"""Answers below which nothing is said."""
SURE, UNSURE = (4, 5), (1, 2)
USUAL = 0.75
"""Share of right answers under which sure ones were too sure, and from which unsure ones were not sure enough."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """The answers given with one confidence; what learners grade themselves is not among them."""

    confidence: int
    asked: int
    right: int

    @property
    def share(self) -> float | None:
        """Right ones of those asked; None where none was."""
        return self.right / self.asked if self.asked else None

    def interval(self) -> Interval | None:
        """Wilson's 95 % interval for the share; None where nothing was asked.

        Source: Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).

        >>> interval = Level(confidence=5, asked=6, right=2).interval()
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.097, 0.7)
        """
        if not self.asked:
            return None
        found = binomtest(self.right, self.asked).proportion_ci(confidence_level=0.95, method="wilson")
        return Interval(low=float(found.low), high=float(found.high), confidence=0.95)


def levels(answered: Iterable[Answered]) -> tuple[Level, ...]:
    """One for each confidence, 1 to 5."""
    graded = [each for each in answered if each.right is not None]
    at = {level: [each.right for each in graded if each.confidence == level] for level in CONFIDENCE}
    return tuple(Level(confidence=level, asked=len(rights), right=sum(map(bool, rights))) for level, rights in at.items())


def partings(found: Iterable[Level]) -> tuple[str, ...]:
    """Sentences on where confidence and correctness part; one that says so where they do not, or where answers are too few.

    >>> partings([Level(confidence=5, asked=6, right=2)])
    ('of 6 answers given with confidence 5, 2 were right: surer than right; read why before you go on',)
    """
    every = [level for level in found if level.asked]
    told = [level for level in every if level.asked >= FEW]
    words = []
    for level in told:
        share = level.right / level.asked
        were = "was" if level.right == 1 else "were"
        begun = f"of {counted(level.asked, 'answer')} given with confidence {level.confidence}, {level.right} {were} right"
        if level.confidence in SURE and share < USUAL:
            words.append(f"{begun}: surer than right; read why before you go on")
        elif level.confidence in UNSURE and share >= USUAL:
            words.append(f"{begun}: you know more than you trust")
    if words:
        return tuple(words)
    if not told:
        return (f"too few answers to say whether confidence and correctness part: {FEW} of one confidence are needed",)
    return ("confidence and correctness go together, as far as these answers tell",)
