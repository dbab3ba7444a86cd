"""What `truestep labs` does without a terminal: questions as a document, answers from a file, milestones."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truestep.cli._asking import answered, say_run, say_unread
from truestep.cli._output import print_json, print_table
from truestep.errors import TruestepError, UsageError
from truestep.labs.asking import progress, reading
from truestep.labs.asking.ask import Build, Choice, Find
from truestep.labs.asking.faults import faults
from truestep.labs.asking.grading import Graded, grade
from truestep.labs.asking.milestones import milestone
from truestep.labs.asking.running import built, demand_file
from truestep.labs.asking.sheet import Asked, by_lab, demand_asked, exercises, options, question
from truestep.pages.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from truestep.labs.asking.answers import Answers
    from truestep.labs.asking.ask import Ask
    from truestep.labs.lab import Lab
    from truestep.labs.shown import Shown

COULD_NOT_RUN = 3


def print_questions(labs: tuple[Lab, ...]) -> None:
    """Every question, without its answer."""
    shown = by_lab()
    asked = exercises(labs)
    print_json({"schema": 1, "questions": {name: question(name, lab, ask, shown(lab)) for name, (lab, ask) in asked.items()}})


def print_milestone(name: str, file: Path | None, *, json: bool) -> int:
    """The file to begin with, or how a file does: 1 where it is not as it should be."""
    goal = milestone(name)
    if file is None:
        print(goal.skeleton, end="")
        return 0
    demand_file(file, name)
    say_run(file)
    report = built(file, name)
    if json:
        print_json(report.record())
    else:
        print(report)
    return 0 if report.passed else 1


def grade_file(path: Path, given: Answers, labs: tuple[Lab, ...], *, run_files: bool, keep: Path | None, json: bool) -> int:
    """Grades the answers of a file, prints the grades; 0, for they are what was asked for, or 3 where truestep failed at one."""
    known, shown = exercises(labs), by_lab()
    demand_asked(path, given, known)
    if keep is not None:
        say_unread(progress.prepare(keep), keep)
    graded: dict[str, tuple[Graded, int | None]] = {}
    unread: dict[str, str] = {}
    failed = False
    for name, each in given.items():
        lab, ask = known[name]
        try:
            confidence = None if each.get("confidence") is None else reading.read_confidence(each["confidence"])
            graded[name] = (_graded(name, ask, each["answer"], shown(lab), path.parent if run_files else None), confidence)
        except TruestepError as error:
            unread[name] = f"{error.summary}: {error.hint}"
            failed = failed or not isinstance(error, UsageError)
    if keep is not None:
        _keep(keep, graded)
    (_print_grades_json if json else _print_grades)(known, graded, unread)
    return COULD_NOT_RUN if failed else 0


def _graded(name: str, ask: Ask, words: Any, shown: Shown, folder: Path | None) -> Graded:
    """The grade of one answer; files are looked for in `folder`, None: they are not run."""
    if isinstance(ask, Build):
        if folder is None:
            raise UsageError("the file is not run", hint="--run-files runs the files that answers name, with all that they do")
        if not isinstance(words, str):
            raise UsageError(f"{words!r} is no path", hint="write the path of a file")
        demand_file(folder / words, ask.milestone)
        say_run(folder / words)
        return grade(ask, words, shown, found=built(folder / words, ask.milestone))
    if isinstance(ask, Find):
        reading.read_line(words, ask.script)  # before the audit takes its seconds
        return grade(ask, words, shown, found=faults(ask.script))
    return grade(ask, words, shown, options=options(name, ask, None) if isinstance(ask, Choice) else ())


def _keep(path: Path, graded: Mapping[str, tuple[Graded, int | None]]) -> None:
    now, left = datetime.now().astimezone(), []
    for name, (each, confidence) in graded.items():
        if confidence is None or each.points is None:
            left.append(name)
        else:
            progress.append(path, answered(name, each, confidence, now))
    if left:
        print(f"not kept, for want of a confidence or of points: {', '.join(left)}", file=sys.stderr)


def _print_grades(known: Asked, graded: dict[str, tuple[Graded, int | None]], unread: dict[str, str]) -> None:
    rows = [[name, each.verdict, "-" if sure is None else str(sure)] for name, (each, sure) in graded.items()]
    rows += [[name, "not read", "-"] for name in unread]
    print_table(f"{len(graded)} of {counted(len(known), 'exercise')} graded", ["exercise", "grade", "confidence"], rows, words=2)
    for name, (each, _) in graded.items():
        if each.share != 1:
            print("\n".join([f"\n{name}", *(f"  {words}" for words in each.words)]))
    for name, why in unread.items():
        print(f"{name} is not graded: {why}", file=sys.stderr)


def _print_grades_json(known: Asked, graded: dict[str, tuple[Graded, int | None]], unread: dict[str, str]) -> None:
    rows = {
        name: {
            "right": each.right,
            "points": each.points,
            "total": each.total,
            "confidence": sure,
            "answer": each.answer,
            "words": list(each.words),
        }
        for name, (each, sure) in graded.items()
    }
    missing = [name for name in known if name not in graded and name not in unread]
    print_json({"schema": 1, "graded": rows, "unread": unread, "unanswered": missing})
