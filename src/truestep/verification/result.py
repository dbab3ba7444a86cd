"""What a verification found: whether the update is the float32 full batch's, by which criterion, and if not, why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from truestep.pages.words import counted, listing
from truestep.verification.bias import Bias, share
from truestep.verification.rows import ALL_ZERO, Row, table

if TYPE_CHECKING:
    from truestep.verification.coupling import Coupling
    from truestep.verification.reading import Reading

SHOWN = 20
"""Rows of a report; `rows` holds all."""
REASONS = 3
"""Different reasons of skipped attempts that a headline gives."""
BRIEF = 240
"""Characters that pytest shows of `assert result.passed, result`: it takes the repr, and cuts the middle out."""


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """An attempt that changed nothing, and therefore shows nothing."""

    attempt: int
    """Counted from 0."""
    reason: str
    """In a few words."""
    detail: str | None = None
    """What else is known of it."""

    def __str__(self) -> str:
        """One line."""
        return f"attempt {self.attempt} was skipped: {self.reason}{'' if self.detail is None else f': {self.detail}'}"


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether the gradient at the optimizer is the float32 full batch's. `str()` explains it; `repr()` says as much as pytest
    shows of an object, so that a test can say `assert result.passed, result`, or `str(result)` for all of it."""

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
        return sum(row.verdict != "not judged" for row in self.rows)

    @property
    def passed(self) -> bool:
        """Something was judged, and nothing is beyond what the formats explain, in size or direction."""
        return self.judged > 0 and not self.beyond and not self.bias.beyond

    @property
    def headline(self) -> str:
        """The verdict in a sentence, and how many parameters and attempts it rests on where that is not all of them."""
        return f"{'passed' if self.passed else 'FAILED'}: {self._because}{self._beside}"

    @property
    def _because(self) -> str:
        every = counted(self.compared, "attempt")
        if not self.compared:
            return f"nothing was compared, for no attempt of {self.attempts} stepped ({self._reasons})"
        if not self.judged:
            if all(row.words == ALL_ZERO for row in self.rows):
                return f"all gradients are zero in {every}: nothing to compare"
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

    @property
    def _beside(self) -> str:
        judged = f"; {self.judged} of {counted(len(self.rows), 'parameter')} judged" if 0 < self.judged < len(self.rows) else ""
        if not self.skipped or not self.compared:
            return judged
        return f"{judged}; {self.compared} of {self.attempts} attempts compared, {len(self.skipped)} skipped ({self._reasons})"

    @property
    def _reasons(self) -> str:
        every = list(dict.fromkeys(skipped.reason for skipped in self.skipped))
        return "; ".join([*every[:REASONS], *(["and others"] if len(every) > REASONS else [])])

    def record(self) -> dict[str, Any]:
        """All of it for JSON: absent is null, and no number is infinite or NaN."""
        fields = asdict(self)
        found = {
            "schema": 1,
            "passed": self.passed,
            "headline": self.headline,
            "compared": self.compared,
            "judged": self.judged,
            **fields,
        }
        plain: dict[str, Any] = _plain(found)
        return plain

    def __str__(self) -> str:
        """A report in plain text: verdict, cause, the worst parameters, and what the criterion is."""
        return "\n".join([*self.head(), "", *table(self.rows[:SHOWN]), *_more(self.rows), "", *self.tail()])

    def __repr__(self) -> str:
        """Verdict and cause in what pytest shows of an object; `str()` tells all."""
        causes = [self.headline]
        if self.reading is not None:
            causes.append(f"reading ({self.reading.kind}): {self.reading.sentence}")
        elif self.coupling is not None:
            causes.append(f"coupling ({self.coupling.kind}): {self.coupling.sentence}")
        elif self.remainder is not None:
            causes.append(f"no cause was read: {self.remainder}")
        more = "\nstr() of it tells all"
        room = BRIEF - len(more) - len(causes) + 1
        first = shorten(causes[0], room if len(causes) == 1 else room // 2, placeholder=" ...")
        rest = [shorten(cause, room - len(first), placeholder=" ...") for cause in causes[1:]]
        return "\n".join([first, *rest]) + more

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
        lines += [str(skipped) for skipped in self.skipped]
        return lines + [f"note: {note}" for note in self.notes]


def _more(rows: Sequence[Row]) -> list[str]:
    left = len(rows) - SHOWN
    return [f"and {counted(left, 'parameter')} more"] if left > 0 else []


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
