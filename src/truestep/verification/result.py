"""What a verification found: whether the update is the float32 full batch's, by which criterion, and if not, why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from truestep.pages.words import counted, listing, significant
from truestep.verification.bias import Bias, share
from truestep.verification.criterion import Judgement

if TYPE_CHECKING:
    from truestep.verification.coupling import Coupling
    from truestep.verification.reading import Reading

Verdict = Literal["beyond", "within", "not judged"]
COLUMNS = ("parameter", "verdict", "error", "explained", "float32", "cosine", "length", "bias")
"""Of a row as words."""
SHOWN = 20
"""Rows of a report; `rows` holds all."""


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
        """The row in words, as `COLUMNS` says."""
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
        words=worst.words,
    )


def _verdict(judgement: Judgement) -> Verdict:
    return "not judged" if judgement.within is None else "within" if judgement.within else "beyond"


_RANK: dict[Verdict, int] = {"not judged": 0, "within": 1, "beyond": 2}


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """An attempt that changed nothing, and therefore shows nothing."""

    attempt: int
    """Counted from 0."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether the gradient at the optimizer is the float32 full batch's. `str()` explains it, so that a test can say
    `assert result.passed, result`."""

    subject: str
    policy: str | None
    """None for a loop of one's own."""
    attempts: int
    """Tried; those that were compared are `attempts - len(skipped)`."""
    microbatches: int
    """Of the first window."""
    skipped: tuple[Skipped, ...]
    rows: tuple[Row, ...]
    """A parameter each, worst first."""
    criterion: tuple[str, ...]
    """The derivation of what is explained; empty where nothing was compared."""
    bias: Bias
    """Of all parameters together."""
    reading: Reading | None
    """What the mistake looks like, where one was recognised."""
    coupling: Coupling | None
    """What makes the examples of a batch depend on each other, where that was found."""
    remainder: str | None
    """How much of what arrived is no combination of the microbatches' gradients, where a failure has neither."""
    notes: tuple[str, ...]
    """What limits the comparison."""

    @property
    def compared(self) -> int:
        """Attempts that were held against a full batch."""
        return self.attempts - len(self.skipped)

    @property
    def beyond(self) -> tuple[Row, ...]:
        """The parameters whose gap the formats do not explain."""
        return tuple(row for row in self.rows if row.verdict == "beyond")

    @property
    def judged(self) -> int:
        """Parameters that could be judged, and whose gradient was not 0 throughout."""
        return sum(row.verdict != "not judged" and (row.error is not None or row.verdict == "beyond") for row in self.rows)

    @property
    def passed(self) -> bool:
        """Something was judged, and nothing is beyond what the formats explain, in size or direction."""
        return self.judged > 0 and not self.beyond and not self.bias.beyond

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return f"{'passed' if self.passed else 'FAILED'}: {self._because}"

    @property
    def _because(self) -> str:
        every = counted(self.compared, "attempt")
        if not self.compared:
            reasons = "; ".join(dict.fromkeys(skipped.reason for skipped in self.skipped))
            return f"nothing was compared, for no attempt of {self.attempts} stepped ({reasons})"
        if not self.judged:
            return f"nothing could be judged in {every}: see the words beside each parameter"
        if self.beyond:
            return f"{len(self.beyond)} of {counted(len(self.rows), 'parameter')} are beyond what the formats explain, in {every}"
        if self.bias.beyond:
            assert self.bias.mean is not None
            way = "long" if self.bias.mean > 0 else "short"
            return (
                f"each attempt alone is within what the formats explain, but the errors of {every} add up in one direction: the"
                f" gradient is too {way} by {share(abs(self.bias.mean))} on average, where rounding to nearest leaves up to"
                f" {share(self.bias.allowed)}"
            )
        return f"the gradient at the optimizer is the float32 full batch's in {every}, within what the formats explain"

    def record(self) -> dict[str, Any]:
        """All of it for JSON: absent is null, and no number is infinite or NaN."""
        fields = asdict(self)
        found = {
            "schema": 1,
            "passed": self.passed,
            "headline": self.headline,
            "compared": self.compared,
            **fields,
        }
        plain: dict[str, Any] = _plain(found)
        return plain

    def __str__(self) -> str:
        """A report in plain text: verdict, cause, the worst parameters, and what the criterion is."""
        return "\n".join([*self.head(), "", *_table(self.rows[:SHOWN]), *_more(self.rows), "", *self.tail()])

    def head(self) -> list[str]:
        """The lines before the table: what was verified, how it ended and why."""
        under = "" if self.policy is None else f" under {self.policy}"
        title = (
            f"{self.subject}{under}, windows of {self.microbatches} {'microbatch' if self.microbatches == 1 else 'microbatches'}"
        )
        lines = [title, self.headline]
        if self.reading is not None:
            lines += [f"reading ({self.reading.kind}): {self.reading.sentence}", f"  hint: {self.reading.fix}"]
            if self.reading.rule is not None:
                lines.append(f"  in a script, truestep audit finds the place by its rule {self.reading.rule}")
            if self.reading.also:
                lines.append(f"  the same numbers would be left by: {listing(list(self.reading.also))}")
        if self.coupling is not None:
            lines.append(f"coupling ({self.coupling.kind}): {self.coupling.sentence}")
        if self.remainder is not None:
            lines.append(f"no cause was read: {self.remainder}")
        return lines

    def tail(self) -> list[str]:
        """The lines after the table: direction, criterion, skipped attempts, notes."""
        lines = [str(self.bias)]
        lines += [f"{row.name}: {row.words}" for row in self.rows[:SHOWN] if row.words is not None]
        lines += ["criterion:", *(f"  {line}" for line in self.criterion)] if self.criterion else []
        lines += [f"attempt {skipped.attempt} was skipped: {skipped.reason}" for skipped in self.skipped]
        return lines + [f"note: {note}" for note in self.notes]


def _more(rows: Sequence[Row]) -> list[str]:
    left = len(rows) - SHOWN
    return [f"and {counted(left, 'parameter')} more"] if left > 0 else []


def _table(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return ["no parameter was compared"]
    cells = [COLUMNS, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = [str.ljust, str.ljust, *[str.rjust] * (len(COLUMNS) - 2)]
    return [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)).rstrip() for line in cells
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5f}" if abs(value) < 100 else significant(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
