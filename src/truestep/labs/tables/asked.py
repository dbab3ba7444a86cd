"""An exercise as the page that asks it needs it: all values computed by the lab's run, every why beside what it belongs to."""

from __future__ import annotations

from typing import Any

from truestep.labs.asking.ask import Ask, Buckets, Build, Choice, Column, Find, Number, Open
from truestep.labs.asking.faults import faults
from truestep.labs.asking.order import mixed
from truestep.labs.asking.values import plain
from truestep.labs.lab import Lab
from truestep.labs.shown import Shown


def asked(lab: Lab, ask: Ask, shown: Shown) -> dict[str, Any]:
    """Kind, key, prompt, and what its kind needs to be graded. Options and items stand in the order of a printed sheet.

    A Find's script is run under the audit, some seconds the first time in a process.
    """
    name = f"{lab.name}/{ask.key}"
    return {"kind": type(ask).__name__.lower(), "key": ask.key, "prompt": ask.prompt} | _own(ask, shown, name)


def _own(ask: Ask, shown: Shown, name: str) -> dict[str, Any]:  # noqa: PLR0911 - one for each kind of exercise
    match ask:
        case Choice():
            answer = ask.answer(shown)
            options = [{"text": each.text, "right": each.value == answer, "why": each.why} for each in ask.options]
            return {"options": list(mixed(options, name=name, day=None)), "eliminate": ask.eliminate}
        case Number():
            tempting = [{"value": plain(each.value(shown)), "why": each.why} for each in ask.tempting]
            answer = plain(ask.answer(shown))
            return {"unit": ask.unit, "answer": answer, "within": ask.within, "why": ask.why, "tempting": tempting}
        case Column():
            table = ask.table(shown)
            named = {"columns": list(table.columns), "rows": plain(table.rows), "blank": table.columns.index(ask.blank)}
            return named | {"title": table.title, "within": ask.within, "why": ask.why}
        case Buckets():
            items = [{"text": item, "bucket": bucket, "why": ask.why[item]} for item, bucket in ask.answer(shown).items()]
            return {"buckets": list(ask.buckets), "items": list(mixed(items, name=name, day=None))}
        case Find():
            found = [{"line": each.line, "words": each.words} for each in faults(ask.script).faults]
            return {"script": ask.script, "faults": found, "why": ask.why}
        case Build():
            return {"milestone": ask.milestone, "why": ask.why}
        case Open():
            told = {"strong": ask.strong, "weak": ask.weak, "follow_up": ask.follow_up}
            return {"rubric": list(ask.rubric)} | told
