"""Exercises on paper: all questions without an answer as a document, and which of them a file of answers may answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from truestep.errors import UsageError
from truestep.labs.asking.answers import FORM, Answers
from truestep.labs.asking.ask import Ask, Buckets, Build, Choice, Column, Find, Number, Open
from truestep.labs.asking.milestones import milestone
from truestep.labs.asking.order import LETTERS, mixed
from truestep.labs.asking.values import plain
from truestep.labs.lab import Lab
from truestep.labs.shown import Shown

Asked = dict[str, tuple[Lab, Ask]]
"""Exercises by name."""


def exercises(labs: tuple[Lab, ...]) -> Asked:
    """Every exercise of the labs, by "lab/key", in order."""
    return {f"{lab.name}/{ask.key}": (lab, ask) for lab in labs for ask in lab.asks}


def options(name: str, ask: Choice, day: date | None) -> tuple[str, ...]:
    """The texts of a choice, as their letters stand on that day; None: on a sheet."""
    return mixed([option.text for option in ask.options], name=name, day=day)


def question(name: str, lab: Lab, ask: Ask, shown: Shown) -> dict[str, Any]:
    """One exercise as a sheet has it, with what its answer looks like."""
    kind = type(ask).__name__.lower()
    return {"lab": lab.name, "title": lab.title, "topic": lab.topic, "kind": kind, "prompt": ask.prompt} | _parts(
        name, ask, shown
    )


def _parts(name: str, ask: Ask, shown: Shown) -> dict[str, Any]:  # noqa: PLR0911 - a return for each kind
    match ask:
        case Choice():
            write = "a list of letters: what you rule out, one after another, until one is left" if ask.eliminate else "a letter"
            return {"options": dict(zip(LETTERS, options(name, ask, None), strict=False)), "write": write}
        case Number():
            return {"unit": ask.unit, "write": "a number"}
        case Column():
            table = ask.table(shown)
            place = table.columns.index(ask.blank)
            rows = [[None if at == place else plain(cell) for at, cell in enumerate(row)] for row in table.rows]
            return {
                "columns": list(table.columns),
                "blank": ask.blank,
                "rows": rows,
                "write": "a list, a cell a row, from the top",
            }
        case Buckets():
            items = list(mixed(list(ask.answer(shown)), name=name, day=None))
            return {"buckets": list(ask.buckets), "items": items, "write": "an object: of each item, its bucket"}
        case Find():
            return {"script": ask.script, "write": "the number of a line"}
        case Build():
            return {"skeleton": milestone(ask.milestone).skeleton, "write": "the path of your file"}
        case Open():
            return {"write": "words; or an object of text and points, a truth for each line of the rubric"}


def demand_asked(path: Path, given: Answers, known: Asked) -> None:
    """UsageError where an answer of the file is one to what is not asked."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else FORM
            raise UsageError(f"{path} answers {name!r}, which is not asked", hint=hint)


def by_lab(run: Callable[[Lab], Shown] = Lab.run) -> Callable[[Lab], Shown]:
    """Runs each lab once, when it is first asked for."""
    kept: dict[str, Shown] = {}

    def shown(lab: Lab) -> Shown:
        if lab.name not in kept:
            kept[lab.name] = run(lab)
        return kept[lab.name]

    return shown
