"""A learner at a terminal or behind a pipe: questions and what comes of them on stdout, prompts on stderr, answers on stdin."""

from __future__ import annotations

import io
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

from truestep.cli._lines import Skipped, listed, paragraph, print_script, prompted, say_how, tell
from truestep.cli._output import print_table
from truestep.errors import UsageError
from truestep.labs.asking import progress, reading
from truestep.labs.asking.ask import Ask, Buckets, Build, Choice, Column, Find, Number, Open
from truestep.labs.asking.faults import Faults, faults
from truestep.labs.asking.grading import Graded, grade
from truestep.labs.asking.milestones import Report
from truestep.labs.asking.order import mixed
from truestep.labs.asking.reading import Written
from truestep.labs.asking.review import Why, due, session
from truestep.labs.asking.running import LIMIT_SECONDS, built
from truestep.labs.asking.sheet import by_lab, exercises, options
from truestep.labs.asking.values import said
from truestep.labs.lab import Lab
from truestep.labs.shown import Shown
from truestep.pages.words import counted

_BACK: dict[Why, str] = {
    "wrong": "it was not right the last time",
    "unsure": "you were not sure the last time",
    "long ago": "it was long ago",
}


def ask(labs: tuple[Lab, ...], path: Path, *, review: bool) -> int:
    """Asks, tells and keeps: all that the labs ask, or in a `review` what is due and then what is new. 0, wherever it ends."""
    known = progress.prepare(path)
    say_unread(known, path)
    every, now = exercises(labs), datetime.now().astimezone()
    names = session(list(every), known.answered, now) if review else tuple(every)
    back, shown, kept = due(known.answered, now), by_lab(), 0
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if names:
        say_how()
    else:
        print("Nothing is due, and there is nothing new. truestep labs NAME --ask asks all of one lab.")
    try:
        for place, name in enumerate(names, 1):
            lab, question = every[name]
            tell(
                f"[{place} of {len(names)}] {lab.title} ({name}){f'; {_BACK[back[name]]}' if name in back else ''}",
                question.prompt,
            )
            try:
                graded, confidence = _One(name, question, shown(lab), now.date()).asked()
            except Skipped:
                continue
            except Unsure:
                print(
                    f"\nthe answer to {name} was read, but not how sure you are: it is neither graded nor kept", file=sys.stderr
                )
                break
            _told(graded)
            progress.append(path, answered(name, graded, confidence, datetime.now().astimezone()))
            kept += 1
    except EOFError:
        pass
    finally:  # after Ctrl-C, too
        sys.stdout.flush()
        print(f"\n{counted(kept, 'answer')} of this session {'is' if kept == 1 else 'are'} kept in {path}", file=sys.stderr)
    return 0


def answered(name: str, graded: Graded, confidence: int, now: datetime) -> progress.Answered:
    """What is kept of an answer."""
    assert graded.points is not None
    return progress.Answered(
        name=name,
        time=now,
        right=graded.right,
        points=graded.points,
        total=graded.total,
        confidence=confidence,
        answer=graded.answer,
    )


def say_unread(known: progress.Progress, path: Path) -> None:
    """That lines of the file are torn, if any are."""
    if known.unread:
        lines = ", ".join(map(str, known.unread))
        print(f"{path}: line {lines} is torn or no record, and left out; all others are there", file=sys.stderr)


def say_run(file: Path) -> None:
    """What is about to be done with a learner's file."""
    print(f"{file} is run, with all that it does, for at most {LIMIT_SECONDS:g} s", file=sys.stderr)


class Unsure(Exception):
    """An answer was read, and the input ended before it was said how sure it is."""


class _One:
    """One exercise, from its question to its grade."""

    def __init__(self, name: str, ask: Ask, shown: Shown, day: date) -> None:
        self.name, self.ask, self.shown, self.day = name, ask, shown, day

    def asked(self) -> tuple[Graded, int]:
        """The grade and the confidence, which is asked before anything is told."""
        texts: tuple[str, ...] = ()
        found: Faults | Report | None = None
        words: Any
        match self.ask:
            case Choice():
                texts = options(self.name, self.ask, self.day)
                words = self._ruled_out(texts) if self.ask.eliminate else self._option(texts)
            case Number() as number:
                unit = "" if number.unit is None else f" ({number.unit})"
                words = prompted(f"number{unit}: ", lambda line: reading.read_value(line, unit=number.unit))
            case Column():
                words = self._column(self.ask)
            case Buckets():
                words = self._buckets(self.ask)
            case Find(script=script):
                print_script(script)
                words = prompted("line: ", lambda line: reading.read_line(line, script))
            case Build():
                print(f"truestep labs --milestone {self.ask.milestone} > my_loop.py writes the file to begin with.")
                words = prompted("your file, which is run with all that it does: ", _file)
            case Open():
                words = Written(text=paragraph())
        try:
            confidence = prompted("how sure are you, 1 (a guess) to 5 (certain)? ", reading.read_confidence)
        except EOFError:
            raise Unsure from None
        if isinstance(self.ask, Open):
            words = self._points(self.ask, words)
        elif isinstance(self.ask, Find):
            print("the audit runs the script ...", file=sys.stderr)
            found = faults(self.ask.script)
        elif isinstance(self.ask, Build):
            say_run(Path(words))
            found = built(Path(words), self.ask.milestone)
        return grade(self.ask, words, self.shown, options=texts, found=found), confidence

    def _option(self, texts: tuple[str, ...]) -> str:
        listed(texts)
        return prompted("letter: ", lambda line: reading.read_option(line, texts))

    def _ruled_out(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        listed(texts)
        out: list[str] = []

        def still(line: str) -> list[str]:
            found = [reading.read_option(word, texts) for word in _letters(line)]
            again = [text for place, text in enumerate(found) if text in [*out, *found[:place]]]
            if again:
                raise UsageError(f"{again[0]!r} is ruled out already", hint="rule out another")
            if len(out) + len(found) == len(texts):
                raise UsageError("that rules out all of them", hint="leave the right one")
            return found

        while len(out) < len(texts) - 1:
            left = len(texts) - 1 - len(out)
            all_at_once = "" if left == 1 else f", or a list of {left} letters, the surest first"
            out += prompted(f"rule out the one that is wrong most surely{all_at_once}: ", still)
        (kept,) = set(texts) - set(out)
        print(f"left: {kept}", file=sys.stderr)
        return tuple(out)

    def _column(self, ask: Column) -> list[Any]:
        table = ask.table(self.shown)
        blank = table.columns.index(ask.blank)
        rows = [["?" if at == blank else said(cell) for at, cell in enumerate(row)] for row in table.rows]
        print_table(f"{table.title}; what stands under {ask.blank}?", table.columns, rows, words=max(1, int(blank > 0)))
        cells = []
        for row, right in zip(rows, table.column(ask.blank), strict=True):
            label = next((cell for at, cell in enumerate(row) if at != blank), "")
            cells.append(prompted(f"{label}: ", lambda line, right=right: reading.read_cell(line, right)))  # type: ignore[misc]  # mypy infers no default argument of a lambda
        return cells

    def _buckets(self, ask: Buckets) -> dict[str, str]:
        listed(ask.buckets)
        items = mixed(list(ask.answer(self.shown)), name=self.name, day=self.day)
        return {item: prompted(f"{item}: ", lambda line: reading.read_option(line, ask.buckets)) for item in items}

    def _points(self, ask: Open, words: Written) -> dict[str, Any]:
        tell(f"A strong answer: {ask.strong}", f"A weak answer: {ask.weak}", "Which of these points does yours have?")
        points = []
        for point in ask.rubric:
            tell(f"- {point}", gap=False)
            points.append(prompted("yes or no: ", lambda line: reading.read_option(line, ("yes", "no"))) == "yes")
        return {"text": words.text, "points": points}


def _told(graded: Graded) -> None:
    """The verdict and the reasons; what a learner's own grading has shown already is not repeated."""
    own = graded.right is None
    verdict = f"{graded.verdict} points" if own else "Right." if graded.right else f"Not right{_part(graded)}."
    tell(verdict, *(words for words in graded.words if not own or words.startswith("And then")))


def _part(graded: Graded) -> str:
    return f": {graded.verdict}" if graded.total > 1 else ""


def _letters(line: str) -> list[str]:
    """The letters of a list of them; the whole line where it is something else."""
    words = line.replace(",", " ").split()
    return words if all(len(word.strip("().")) == 1 for word in words) else [line]


def _file(line: str) -> str:
    if not Path(line.strip()).expanduser().is_file():
        raise UsageError(f"there is no file {line.strip()}", hint="write its path, or skip")
    return str(Path(line.strip()).expanduser())
