"""Which labs and which laws see an engine with one thing left out: run as a module, it writes docs/mutations.md (minutes)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.labs.mutations import MUTATIONS, ROOT, Seen, copied, watch

PAGE = ROOT / "docs" / "mutations.md"
LAWS = sorted((ROOT / "tests" / "engine").glob("test_law_*.py"))


@dataclass(frozen=True, kw_only=True)
class Row:
    """Who sees that something was left out: labs, the quickest first; laws by their files' names; a quick test."""

    labs: tuple[str, ...]
    laws: tuple[str, ...]
    test: str


def row_of(seen: Seen) -> Row:
    """A row of the table; the laws at least have to see it."""
    assert seen.tests(), "no law sees it"
    laws = {Path(test.split("::")[0]).stem.removeprefix("test_law_") for test in seen.tests()}
    quickest = min(seen.tests(), key=lambda test: "[" in test)  # without parameters, if there is one: their names are made up
    return Row(labs=seen.labs(), laws=tuple(sorted(laws, key=lambda law: int(law.split("_")[0]))), test=quickest)


def everything() -> dict[str | None, Seen]:
    """What all labs and all laws say of each engine, and under None of the one with nothing left out."""
    names = (None, *MUTATIONS)
    with TemporaryDirectory() as root, ThreadPoolExecutor(2) as two:
        folders = [copied(Path(root, str(name)), None if name is None else MUTATIONS[name]) for name in names]
        return dict(zip(names, two.map(partial(watch, labs=None, tests=list(map(str, LAWS))), folders), strict=True))


HEAD = """# What sees a broken engine

A lab that could not fail would show nothing. Here the engine is broken on purpose, one thing left out at a time, and every lab
and every test of a [law](design.md) is run against it. A lab fails where what it measures is not what theory gives, or where it
cannot go on. With nothing left out, all pass.

Written by `python -m tests.labs.mutations_table`. `tests/labs/test_mutations.py` runs the first lab and the test of each row, and
under `TRUESTEP_FULL=1` everything.

| left out | then | labs that fail | laws that fail | a quick test |
|---|---|---|---|---|
"""


def text(rows: Mapping[str, Row]) -> str:
    """The whole page."""
    return HEAD + "".join(f"| {name} | {MUTATIONS[name].does} | {_cells(row)} |\n" for name, row in rows.items())


def _cells(row: Row) -> str:
    labs = ", ".join(f"[{lab}](lessons.md#{lab})" for lab in row.labs)
    laws = ", ".join(law.replace("_", " ") for law in row.laws)
    return f"{labs} | {laws} | `{row.test.removeprefix('tests/engine/')}`"


def read(page: str) -> dict[str, Row]:
    """The rows of a page, by what is left out."""
    rows = {}
    for line in page.removeprefix(HEAD).splitlines():
        name, _, labs, laws, test = (cell.strip() for cell in line.strip("| ").split(" | "))
        rows[name] = Row(
            labs=tuple(re.findall(r"\[([\w-]+)\]", labs)),
            laws=tuple(law.replace(" ", "_") for law in laws.split(", ")),
            test=f"tests/engine/{test.strip('`')}",
        )
    return rows


if __name__ == "__main__":
    found = everything()
    assert not found[None].failed, f"these fail with nothing left out: {found[None].failed}"
    PAGE.write_text(text({name: row_of(seen) for name, seen in found.items() if name is not None}), encoding="utf-8")
