"""What a comparison is declared to fail by (`--fail-if`), for continuous integration: parsed, then judged. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from truestep.compare.against import Against, TimeVerdict
from truestep.compare.candidate import Candidate
from truestep.compare.standing import Standing
from truestep.errors import ProtocolError
from truestep.pages.words import percent
from truestep.stats import Bound

FORMS = ("quality", "quality=inferior", "examples", "examples=inferior", "skip-rate>1%", "time>1.1x", "reach<100%")
"""One of each kind."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One condition; it is held against each candidate but a demonstration, and holds where it is met.

    quality            a candidate has not been shown non-inferior in final quality: inferior, or undecided
    quality=inferior   a candidate has been shown inferior in final quality
    examples, examples=inferior   the same of the examples to the target
    skip-rate>1%       more than this share of a candidate's attempts was skipped; the baseline's too
    time>1.1x          a candidate took more than so many times the baseline's seconds to the target: the geometric mean over the
                       seeds, times cut at the budget; where the noise floor was measured, by more than that floor
    reach<100%         fewer than this share of a candidate's runs reached the target; the baseline's too

    >>> str(Condition.parse(" skip-rate > 1 % ")), Condition.parse("time>1.25x").limit
    ('skip-rate>1%', 1.25)
    """

    kind: str
    """"quality", "examples", "skip-rate", "time" or "reach"."""
    limit: float | None = None
    """A percentage, or a ratio of times; None for "quality" and "examples", whose margins the protocol declares."""
    shown: bool = False
    """Of "quality" and "examples": whether inferiority has to be shown."""

    @staticmethod
    def parse(text: str) -> Condition:
        """The condition that `text` writes; ProtocolError, with the forms that there are, for any other."""
        word = re.sub(r"\s", "", text)
        if found := re.fullmatch(r"(quality|examples)(=inferior)?", word):
            return Condition(kind=found[1], shown=found[2] is not None)
        found = re.fullmatch(r"(skip-rate)>([\d.]+)%|(time)>([\d.]+)x|(reach)<([\d.]+)%", word)
        kind, number = (part for part in found.groups() if part is not None) if found else ("", "")
        try:
            limit = float(number)
        except ValueError:
            limit = math.nan
        least, most = {"time": (1e-9, 1e9), "reach": (1e-9, 100.0)}.get(kind, (0.0, 100.0))
        if not least <= limit <= most:
            hint = f"write one of these forms: {', '.join(FORMS)}"
            raise ProtocolError(f"--fail-if {text!r} is no condition", hint=hint, condition=text)
        return Condition(kind=kind, limit=limit)

    def __str__(self) -> str:
        """The condition in one writing: equal conditions write alike."""
        if self.limit is None:
            return f"{self.kind}=inferior" if self.shown else self.kind
        number = repr(float(self.limit)).removesuffix(".0")
        return f"time>{number}x" if self.kind == "time" else f"{self.kind}{'<' if self.kind == 'reach' else '>'}{number}%"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What became of one condition for one candidate."""

    condition: str
    candidate: str
    holds: bool | None
    """None: it cannot be told, which fails a comparison as one that holds does: what was to be guarded is not shown."""
    text: str
    """What was found, with its numbers."""


def conditions_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Each condition once, in its one writing, of texts that hold one or several parted by commas; the order is kept.

    >>> conditions_of(["quality, skip-rate>1%", "reach<100.0%", "quality"])
    ('quality', 'skip-rate>1%', 'reach<100%')
    """
    words = [word for text in texts for word in text.split(",")]
    return tuple(dict.fromkeys(str(Condition.parse(word)) for word in words))


def judged(
    conditions: Sequence[str], rows: Iterable[tuple[Standing, Against | None]], *, noise_floor: float | None
) -> tuple[Judgement, ...]:
    """Every condition of every candidate that it is about: never a demonstration, and the baseline where it can."""
    found, held = [], list(rows)
    for text in conditions:
        condition = Condition.parse(text)
        for one, against in held:
            if not _is_about(condition, baseline=one.baseline, again=one.again, demonstrates=one.demonstrates is not None):
                continue
            holds, why = _found(condition, one, against, noise_floor)
            found.append(Judgement(condition=text, candidate=one.candidate, holds=holds, text=why))
    return tuple(found)


def demand_judgeable(conditions: Sequence[str], candidates: Sequence[str], *, emulated: Collection[str]) -> None:
    """ProtocolError for a condition that no race of these candidates could judge: it would guard nothing.

    Args:
        candidates: the baseline first.
        emulated: those whose seconds say nothing on this device.
    """
    parsed = [Candidate.parse(text) for text in candidates]
    for text in conditions:
        condition = Condition.parse(text)
        about = [
            name
            for place, (name, one) in enumerate(zip(candidates, parsed, strict=True))
            if _is_about(condition, baseline=place == 0, again=one.again, demonstrates=one.demonstrates is not None)
        ]
        if not about:
            hint = "name a candidate besides the baseline that is no demonstration, or leave the condition out"
            raise ProtocolError(f"--fail-if {text} is about none of the candidates", hint=hint, condition=text)
        if condition.kind == "time" and (unsure := [name for name in (candidates[0], *about) if name in emulated]):
            side = "against" if unsure[0] == candidates[0] else "of"
            raise ProtocolError(
                f"--fail-if {text} can never be judged {side} {unsure[0]}, which is emulated on this device",
                hint="leave out the candidate or the condition; --fail-if examples is judged on every device",
                condition=text,
                emulated=", ".join(unsure),
            )


def _is_about(condition: Condition, *, baseline: bool, again: bool, demonstrates: bool) -> bool:
    """Whether it is held against such a candidate."""
    return not (again or demonstrates or (baseline and condition.kind not in ("skip-rate", "reach")))


def failed_by(judgements: Iterable[Judgement]) -> list[str]:
    """A line for each judgement that holds or cannot be told, those that hold first; nothing where all is well."""
    ordered = sorted((one for one in judgements if one.holds is not False), key=lambda one: one.holds is None)
    said = {True: "Failed", None: "Not judged, and so failed"}
    return [f"{said[one.holds]}: --fail-if {one.condition}: {one.candidate}, {one.text}" for one in ordered]


def _found(condition: Condition, one: Standing, against: Against | None, noise_floor: float | None) -> tuple[bool | None, str]:
    limit = condition.limit or 0.0
    if condition.kind == "skip-rate":
        if one.skip_rate is None:
            return None, "no attempt was made"
        beyond = 100 * one.skipped > _exact(limit) * one.attempts
        return beyond, f"{one.skipped} of {one.attempts} attempts skipped ({percent(one.skip_rate, 4)})"
    if condition.kind == "reach":
        short = 100 * one.reached < _exact(limit) * one.runs if one.runs else None
        return short, f"{one.reached} of {one.runs} runs reached the target"
    assert against is not None
    if condition.kind != "time":
        return _margin(condition, against)
    if against.time is TimeVerdict.WITHHELD:
        return (
            None,
            f"{'emulated' if one.emulated else 'the baseline is emulated'} on this device, so that the seconds say nothing",
        )
    return _time(against, limit=limit, noise_floor=noise_floor)


def _exact(limit: float) -> Fraction:
    """The limit as it was written: in floats, 7 of 100 would lie above 7 %."""
    return Fraction(repr(limit))


def _margin(condition: Condition, against: Against) -> tuple[bool, str]:
    is_quality = condition.kind == "quality"
    margin, what = (against.quality, "final quality") if is_quality else (against.examples, "examples to the target")
    said = f"{what} {margin.decision}"
    if margin.mean is not None:
        upper = "" if margin.upper is None else f", below {margin.upper:.3g} at 95 %"
        loss = f"mean loss {margin.mean:.3g}" if margin.mean else "no difference in the mean"
        said += f": {loss}{upper}, margin {margin.margin:.3g}, pairs {margin.pairs}"
    if margin.why is not None:
        said += f" ({margin.why})"
    return margin.decision == "inferior" if condition.shown else margin.decision != "non-inferior", said


def _time(against: Against, *, limit: float, noise_floor: float | None) -> tuple[bool | None, str]:
    ratio = against.ratios["seconds"]
    if ratio is None:
        return None, "no pair of runs has a time"
    taken = 1 / ratio.speedup
    beyond, said = taken > limit, f"{taken:.4g}x the baseline's time"
    known: dict[Bound | None, tuple[bool | None, str]] = {
        Bound.UNDIRECTED: (None, f"{said}, of times cut at the budget on both sides"),
        Bound.AT_MOST: (True if beyond else None, f"at least {said}: cut at the budget"),  # at most so much faster
        Bound.AT_LEAST: (None if beyond else False, f"at most {said}: the baseline was cut at the budget"),
        None: (beyond, said),
    }
    holds, why = known[ratio.bound]
    if holds and noise_floor is not None and taken <= limit * noise_floor:
        return None, f"{why}; no further above the limit than the noise floor of {noise_floor:.4g}x"
    return holds, why
