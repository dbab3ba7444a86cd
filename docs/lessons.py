"""Writes docs/lessons.md: each lesson with the labs that run it, and what each lab claims.

`make reference` runs this; tests/architecture/test_public.py fails where the page is not what it would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from truestep.labs.lab import TOPICS, Lab
from truestep.labs.lessons import LESSONS
from truestep.labs.shelf import labs

PAGE = Path(__file__).with_name("lessons.md")

HEAD = """# Lessons and labs

A lesson is a fact about mixed-precision training; a lab runs it on real tensors, beside what theory gives, and fails where they
part. `truestep labs` lists them, `truestep labs NAME` shows one, `truestep labs --all --check` runs all. Written by
`make reference`.

| | lesson | labs |
|---|---|---|
"""


def text() -> str:
    """The whole page."""
    rows = "".join(f"| {row} | {fact} | {shown_by(row)} |\n" for row, fact in LESSONS.items())
    return "\n".join([HEAD + rows, *(part for topic, title in TOPICS.items() for part in section(topic, title))])


def shown_by(row: str) -> str:
    """Links to the labs of a lesson."""
    return ", ".join(f"[{each.name}](#{each.name})" for each in labs() if row in each.facts) or "none yet"


def section(topic: str, title: str) -> Iterator[str]:
    """A topic and its labs; nothing for a topic that has none yet."""
    shelf = [each for each in labs() if each.topic == topic]
    if shelf:
        yield f"## {title}\n"
        yield from (entry(each) for each in shelf)


def entry(lab: Lab) -> str:
    """One lab: its claim, where it comes from, when it holds, and what to see first."""
    lines = [f"### {lab.name}", "", f"**{lab.title}** ({' '.join(lab.facts)}). {lab.claim}", ""]
    lines += [f"* Source: {lab.source}."]
    lines += [f"* Only: {lab.condition}"] if lab.condition else []
    lines += [f"* After [{each.lab}](#{each.lab}): {each.why}" for each in lab.after]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(text())
