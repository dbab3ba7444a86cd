"""One parameter of a verification: its verdict over all attempts, and how a report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from truestep.pages.words import significant
from truestep.verification.bias import Bias, share
from truestep.verification.criterion import Judgement

Verdict = Literal["beyond", "within", "not judged"]
COLUMNS = ("parameter", "verdict", "error", "explained", "float32", "cosine", "length", "bias")
"""Of a row as words."""
ALL_ZERO = "all zero: nothing to compare"
"""Beside a parameter of which nothing arrived and nothing should have."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One parameter, at the attempt where its gap was largest against what is explained."""

    name: str
    verdict: Verdict
    """Over all attempts: beyond in any, else within in any, else not judged."""
    attempt: int
    """Counted from 0."""
    error: float | None
    """|a - r| / |r| of what arrived against float64; None where r is 0, or something is not finite."""
    tolerance: float | None
    """What the formats explain of it; None where it is not judged."""
    plain_error: float | None
    """The same error of the plain float32 full batch."""
    cosine: float | None
    """Of the angle between what arrived and what should have."""
    ratio: float | None
    """|a| / |r|."""
    bias: Bias
    """Over all attempts, of this parameter alone."""
    words: str | None
    """Why it is not judged, or what is the matter beside size."""

    @property
    def rank(self) -> tuple[int, float]:
        """For an order with the worst first."""
        excess = self.error / self.tolerance if self.error is not None and self.tolerance else 0.0
        return -_RANK[self.verdict], -excess

    def cells(self) -> tuple[str, ...]:
        """The row in words, as `COLUMNS` says. Without a tolerance nothing is relative to anything, and `words` tells why."""
        if self.tolerance is None:
            return (self.name, self.verdict, *["-"] * (len(COLUMNS) - 2))
        shares = [share(value) for value in (self.error, self.tolerance, self.plain_error)]
        numbers = [_number(value) for value in (self.cosine, self.ratio)]
        return (self.name, self.verdict, *shares, *numbers, share(self.bias.mean))


def row_of(every: Sequence[tuple[int, Judgement]], *, bias: Bias) -> Row:
    """From the judgements of one parameter, each with its attempt."""
    attempt, worst = max(every, key=lambda pair: (_RANK[_verdict(pair[1])], pair[1].excess))
    gap = worst.gap
    return Row(
        name=gap.name,
        verdict=_verdict(worst),
        attempt=attempt,
        error=gap.relative,
        tolerance=worst.tolerance,
        plain_error=gap.plain_relative,
        cosine=gap.cosine,
        ratio=gap.ratio,
        bias=bias,
        words=ALL_ZERO if _zero(worst) else worst.words,
    )


def table(rows: Sequence[Row]) -> list[str]:
    """The rows as lines, under their names."""
    if not rows:
        return ["no parameter was compared"]
    cells = [COLUMNS, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = [str.ljust, str.ljust, *[str.rjust] * (len(COLUMNS) - 2)]
    return [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)).rstrip() for line in cells
    ]


def _zero(judgement: Judgement) -> bool:
    return judgement.within is True and judgement.tolerance is None


def _verdict(judgement: Judgement) -> Verdict:
    if judgement.within is None or _zero(judgement):
        return "not judged"
    return "within" if judgement.within else "beyond"


_RANK: dict[Verdict, int] = {"not judged": 0, "within": 1, "beyond": 2}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5f}" if abs(value) < 100 else significant(value)
