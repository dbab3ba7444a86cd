"""Reads what a learner wrote into what can be graded; a UsageError says what could have been read in its place."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from truestep.errors import UsageError
from truestep.labs.asking.ask import Buckets, Choice, Column, Number, Open
from truestep.labs.asking.numerals import READABLE, read_number, read_numbers
from truestep.labs.asking.order import LETTERS, chosen
from truestep.labs.shown import Shown, Table, Value
from truestep.pages.words import counted

CONFIDENCE = range(1, 6)


@dataclass(frozen=True, kw_only=True)
class Written:
    """An answer in words, and which of the rubric's points the learner finds in it; None before that was asked."""

    text: str
    points: tuple[bool, ...] | None = None


def read_confidence(words: Any) -> int:
    """1 to 5."""
    number = read_number(str(words))
    if isinstance(words, bool) or number not in CONFIDENCE:
        raise UsageError(f"{_shown(words)} is no confidence", hint="write a whole number, 1 (a guess) to 5 (certain)")
    return int(number or 0)


def read_value(words: Any, *, unit: str | None = None) -> float:
    """A number, typed or already one."""
    if isinstance(words, (int, float)) and not isinstance(words, bool):
        number: float | None = None if math.isnan(words) else float(words)
    else:
        number = read_number(words, unit=unit) if isinstance(words, str) else None
    if number is None:
        raise UsageError(f"{_shown(words)} cannot be read as a number", hint=READABLE)
    return number


def read_option(words: Any, among: Sequence[str]) -> str:
    """One of several texts, by its letter or by itself."""
    found = chosen(words, among) if isinstance(words, str) else None
    if found is None:
        each = ", ".join(f"{LETTERS[place]} ({text})" for place, text in enumerate(among))
        raise UsageError(f"{_shown(words)} is none of them, or more than one", hint=f"write a letter or the text: {each}")
    return found


def read_ruled_out(words: Any, among: Sequence[str]) -> tuple[str, ...]:
    """What is ruled out, one after another, until one is left; a text alone is the one that is left."""
    if not isinstance(words, (list, tuple)):
        left = read_option(words, among)
        return tuple(each for each in among if each != left)
    out = tuple(read_option(each, among) for each in words)
    if len(set(out)) != len(out) or len(out) != len(among) - 1:
        raise UsageError(
            f"{_shown(list(words))} does not leave exactly one", hint=f"rule out {len(among) - 1} of {len(among)}, each once"
        )
    return out


def read_cell(words: Any, like: Value) -> Value:
    """A cell of a column, of the kind that stands there; its number is not looked at."""
    if isinstance(like, bool):
        return read_option(words if isinstance(words, str) else "yes" if words else "no", ("yes", "no")) == "yes"
    if isinstance(like, (int, float)):
        return read_value(words)
    if isinstance(like, tuple) and not any(isinstance(each, str) for each in like):
        found = tuple(map(read_value, words)) if isinstance(words, (list, tuple)) else read_numbers(str(words))
        if found is None:
            raise UsageError(f"{_shown(words)} cannot be read as numbers", hint=f"part them by spaces; {READABLE}")
        return found
    return " ".join(str(words).split())


def read_line(words: Any, script: str) -> int:
    """The number of a line of the script."""
    number, last = read_number(str(words).strip().lower().removeprefix("line")), len(script.splitlines())
    if isinstance(words, bool) or number is None or number not in range(1, last + 1):
        raise UsageError(f"{_shown(words)} is no line of the script", hint=f"write the number of a line, 1 to {last}")
    return int(number)


def read_written(words: Any, ask: Open) -> Written:
    """Words, with points where they were given: a mapping of `text` and `points`, a truth for each line of the rubric."""
    given: Mapping[str, Any] = words if isinstance(words, Mapping) else {"text": words}
    text, points = given.get("text"), given.get("points")
    if not isinstance(text, str) or not text.strip():
        raise UsageError("there is no answer in words", hint="write a sentence or two before you see the rubric")
    if points is None:
        return Written(text=text)
    truths = isinstance(points, (list, tuple)) and all(isinstance(each, bool) for each in points)
    if not truths or len(points) != len(ask.rubric):
        hint = f"write a list of {len(ask.rubric)}, true or false for each line of the rubric"
        raise UsageError(f"points {_shown(points)} do not fit the rubric", hint=hint)
    return Written(text=text, points=tuple(points))


def read_answer(ask: Choice | Number | Column | Buckets, words: Any, shown: Shown, options: Sequence[str]) -> Any:
    """What is graded: an option's text, all that were ruled out, a number, a tuple of cells, or each item's bucket."""
    match ask:
        case Choice():
            return (read_ruled_out if ask.eliminate else read_option)(words, options)
        case Number():
            return read_value(words, unit=ask.unit)
        case Column():
            return _cells(words, ask.table(shown), ask.blank)
        case Buckets():
            return _sorted(words, list(ask.answer(shown)), ask.buckets)


def _cells(words: Any, table: Table, blank: str) -> tuple[Value, ...]:
    right = table.column(blank)
    if not isinstance(words, (list, tuple)) or len(words) != len(right):
        raise UsageError(
            f"{_shown(words)} is not a cell a row", hint=f"write a list of {counted(len(right), 'cell')}, from the top"
        )
    return tuple(read_cell(each, like) for each, like in zip(words, right, strict=True))


def _sorted(words: Any, items: list[str], buckets: tuple[str, ...]) -> dict[str, str]:
    if not isinstance(words, Mapping) or set(words) != set(items):
        raise UsageError("not every item has a bucket, or something else has", hint=f"write one for each of: {', '.join(items)}")
    return {item: read_option(words[item], buckets) for item in items}


def _shown(words: Any) -> str:
    """What was written, as it was: words in quotes, what came from a file as JSON."""
    return repr(words) if isinstance(words, str) else json.dumps(words, ensure_ascii=False, default=repr)
