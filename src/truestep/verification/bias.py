"""Whether the error of several attempts has a direction: its signed mean, with an interval. Size is another question."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from truestep.pages.words import counted, percent, significant
from truestep.stats.interval import Interval, mean_interval
from truestep.verification.criterion import SAFETY, Computed
from truestep.verification.gap import Gap


@dataclass(frozen=True, kw_only=True)
class Bias:
    """The signed relative error <a - r, r> / <r, r> over attempts: 1 where what arrives is twice as long, -0.5 where half."""

    attempts: int
    mean: float | None
    """None where no attempt had a finite gradient that is not 0."""
    interval: Interval | None
    """Student's at 95 %, of attempts that are taken as independent; None for fewer than two."""
    allowed: float
    """What rounding to nearest may leave of a direction."""

    @property
    def beyond(self) -> bool:
        """Whether the whole interval lies outside what is allowed."""
        return self.interval is not None and (self.interval.low > self.allowed or self.interval.high < -self.allowed)

    @property
    def systematic(self) -> bool:
        """Whether 0 lies outside of the interval."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high

    def __str__(self) -> str:
        """One line."""
        if self.mean is None:
            return "bias: not measured"
        of = counted(self.attempts, "attempt")
        if self.interval is None:
            return f"bias: {share(self.mean)} in {of}; an interval takes two"
        span = f"{share(self.interval.low)} to {share(self.interval.high)}"
        said = "beyond" if self.beyond else "within"
        way = "a direction, and a small one: " if self.systematic and not self.beyond else ""
        return f"bias: {way}{share(self.mean)} over {of} (95 %: {span}), {said} the {share(self.allowed)} that rounding may leave"


def share(value: float | None) -> str:
    """A relative number as a percentage, or by its exponent where it is small; "-" where there is none.

    >>> share(-2.5e-7), share(None), share(0.0312).replace("\\N{NO-BREAK SPACE}", " ")
    ('-2.5e-07', '-', '3.1 %')
    """
    if value is None:
        return "-"
    return percent(value, 2) if value == 0 or abs(value) >= 1e-4 else significant(value, 2)


def bias_of(signed: Sequence[float | None], *, allowed: float) -> Bias:
    """From each attempt's signed relative error; those that have none are left out.

    >>> bias_of([0.9, 1.0, 1.1, None], allowed=0.01).beyond
    True
    >>> bias_of([-0.001, 0.0, 0.001], allowed=0.01).systematic
    False
    """
    found = [each for each in signed if each is not None]
    if not found:
        return Bias(attempts=0, mean=None, interval=None, allowed=allowed)
    return Bias(attempts=len(found), mean=statistics.fmean(found), interval=mean_interval(found), allowed=allowed)


def bias_among(every: Sequence[tuple[Gap, Computed]]) -> Bias:
    """Of the gaps of several attempts.

    Allowed is what rounding may leave of a direction, and what the plain full batch shows, magnified as a rounding is.
    """
    rounding = max((SAFETY * computed.unit + computed.clip for _, computed in every), default=0.0)
    coarser = max((computed.unit / computed.plain_unit for _, computed in every), default=1.0)
    plain = bias_of([gap.plain_signed for gap, _ in every], allowed=0.0).mean or 0.0
    return bias_of([gap.signed for gap, _ in every], allowed=rounding + SAFETY * coarser * abs(plain))
