"""Holds an answer against what the run showed: how much of it is right, why the right one is, and why each wrong one tempts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from truestep.labs.asking.ask import Ask, Buckets, Build, Choice, Column, Find, Number, Open
from truestep.labs.asking.faults import Faults
from truestep.labs.asking.milestones import Report
from truestep.labs.asking.reading import Written, read_answer, read_line, read_written
from truestep.labs.asking.values import plain, said
from truestep.labs.shown import Shown, Value


@dataclass(frozen=True, kw_only=True)
class Graded:
    """What an answer is worth."""

    right: bool | None
    """All of it; None for what the learner grades."""
    points: int | None
    """Of `total`: cells, items, lines of a rubric; None for words that nobody has graded yet."""
    total: int
    answer: Any
    """As it was read, ready for JSON."""
    words: tuple[str, ...]
    """What is right and why, and why what is wrong tempts; a paragraph each."""

    @property
    def share(self) -> float | None:
        """Points of the total; None where there are none yet."""
        return None if self.points is None else self.points / self.total

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.points is None:
            return "not graded yet"
        if self.total > 1:
            return f"{self.points} of {self.total}"
        return "right" if self.right else "wrong"


def grade(  # noqa: PLR0911 - a return for each kind
    ask: Ask, words: Any, shown: Shown, *, options: Sequence[str] = (), found: Faults | Report | None = None
) -> Graded:
    """Grades what was written by what was measured.

    Args:
        words: as it was typed, or a number, list or mapping, as the kind of exercise has it.
        options: of a choice, the texts in the order in which their letters stood; none of them: as the lab has them.
        found: what the audit found in a Find's script, or what came of a Build's file.

    Raises:
        UsageError: the answer cannot be read; its hint says what can.
    """
    match ask:
        case Choice():
            texts = list(options) or [option.text for option in ask.options]
            return _choice(ask, read_answer(ask, words, shown, texts), shown)
        case Number():
            return _number(ask, read_answer(ask, words, shown, ()), shown)
        case Column():
            return _column(ask, read_answer(ask, words, shown, ()), shown)
        case Buckets():
            return _buckets(ask, read_answer(ask, words, shown, ()), shown)
        case Find():
            assert isinstance(found, Faults)
            return _find(ask, read_line(words, ask.script), found)
        case Build():
            assert isinstance(found, Report)
            told = (str(found), ask.why)
            return Graded(right=found.passed, points=int(found.passed), total=1, answer=str(words), words=told)
        case Open():
            return _open(ask, read_written(words, ask))


def _near(given: float, right: float, within: float) -> bool:
    """Within that share of the right number; what is no number, or infinite, is right as itself alone."""
    if not math.isfinite(given) or not math.isfinite(right):
        return given == right or (math.isnan(given) and math.isnan(right))
    return abs(given - right) <= within * abs(right)


def _choice(ask: Choice, given: str | tuple[str, ...], shown: Shown) -> Graded:
    answer = ask.answer(shown)
    (right,) = (option for option in ask.options if option.value == answer)
    out = given if isinstance(given, tuple) else ()
    total = len(ask.options) - 1 if ask.eliminate else 1
    points = (out.index(right.text) if right.text in out else total) if ask.eliminate else int(given == right.text)
    wrong = [f"Not {option.text}: {option.why}" for option in ask.options if option is not right]  # in the lab's own order
    words = [f"Right is {right.text}: {right.why}", *wrong]
    if right.text in out:
        words.insert(0, f"You ruled out the right one after {points} of the wrong ones.")
    return Graded(right=points == total, points=points, total=total, answer=plain(given), words=tuple(words))


def _number(ask: Number, given: float, shown: Shown) -> Graded:
    answer, unit = ask.answer(shown), "" if ask.unit is None else f" {ask.unit}"
    right = _near(given, answer, ask.within)
    words = [f"It is {said(answer)}{unit}. {ask.why}"]
    for tempting in ask.tempting:
        value = tempting.value(shown)
        yours = not right and _near(given, value, max(ask.within, 0.001))
        words.insert(1 if yours else len(words), f"{'Your' if yours else 'Tempting'} {said(value)}{unit}: {tempting.why}")
    return Graded(right=right, points=int(right), total=1, answer=plain(given), words=tuple(words))


def _column(ask: Column, given: tuple[Value, ...], shown: Shown) -> Graded:
    table, words, points = ask.table(shown), [], 0
    for row, yours, right in zip(table.rows, given, table.column(ask.blank), strict=True):
        fits = _fits(yours, right, ask.within)
        points += fits
        if not fits:
            label = next(said(cell) for name, cell in zip(table.columns, row, strict=True) if name != ask.blank)
            words.append(f"{label}: {said(right)}, not {said(yours)}")
    total = len(table.rows)
    return Graded(right=points == total, points=points, total=total, answer=plain(given), words=(*words, ask.why))


def _parts(value: Value) -> tuple[Value, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,)


def _fits(yours: Value, right: Value, within: float) -> bool:
    """Whether a cell is right: words in any letters, numbers within the share."""
    if isinstance(right, tuple):
        pairs = list(zip(_parts(yours), _parts(right), strict=False))
        return len(_parts(yours)) == len(right) and all(_fits(each, other, within) for each, other in pairs)
    if isinstance(right, (int, float)) and not isinstance(right, bool):
        return isinstance(yours, (int, float)) and _near(float(yours), float(right), within)
    return said(yours).casefold() == said(right).casefold()


def _buckets(ask: Buckets, given: dict[str, str], shown: Shown) -> Graded:
    answer = ask.answer(shown)
    wrong = [item for item in answer if given[item] != answer[item]]
    words = []
    for (bucket, why, yours), items in groupby(answer, key=lambda item: (answer[item], ask.why[item], given[item])):
        words.append(f"{', '.join(items)}: {bucket}{'' if yours == bucket else f', not {yours}'}: {why}")
    points = len(answer) - len(wrong)
    return Graded(right=not wrong, points=points, total=len(answer), answer=given, words=tuple(words))


def _find(ask: Find, given: int, found: Faults) -> Graded:
    right = given in found.lines
    text = ask.script.splitlines()
    words = []
    for line in dict.fromkeys(fault.line for fault in found.faults):
        said = [f"  - {fault.words}" for fault in found.faults if fault.line == line]
        words.append("\n".join([f"The audit reports line {line}: {text[line - 1].strip()}", *said]))
    return Graded(right=right, points=int(right), total=1, answer=given, words=(*words, ask.why))


def _open(ask: Open, given: Written) -> Graded:
    points = None if given.points is None else sum(given.points)
    follow = () if ask.follow_up is None else (f"And then: {ask.follow_up}",)
    words = (f"A strong answer: {ask.strong}", f"A weak answer: {ask.weak}", *follow)
    answer = {"text": given.text, "points": None if given.points is None else list(given.points)}
    return Graded(right=None, points=points, total=len(ask.rubric), answer=answer, words=words)
