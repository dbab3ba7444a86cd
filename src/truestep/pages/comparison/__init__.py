"""The page of a comparison: report.html from the records in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truestep.pages.comparison.clocks import EXAMPLES, SECONDS
from truestep.pages.comparison.declared import declared, environments
from truestep.pages.comparison.headline import conditions, headline, verdicts
from truestep.pages.comparison.paired import paired
from truestep.pages.comparison.quality import quality_trend
from truestep.pages.comparison.race import not_yet
from truestep.pages.comparison.reading import Comparison, read
from truestep.pages.comparison.results import results
from truestep.pages.comparison.runs import again, runs
from truestep.pages.comparison.scale import scale_trend
from truestep.pages.comparison.spending import memory_and_throughput, time_by_clock
from truestep.pages.comparison.trends import LOSS, NORM, trend
from truestep.pages.look.figure import Figure
from truestep.pages.look.page import render, write_page


def write(out: Path, summary: Mapping[str, Any] | None = None) -> Path:
    """Write `out`/report.html, one self-contained file, from the records in `out`; returns its path.

    Reads protocol.json, records.jsonl, summary.json (or takes `summary` in its place) and the ledgers that the records
    name. Measures nothing: numbers are the records' own, shown rounded; the records are in the page as JSON. The page
    makes no network request.

    Raises:
        RecordError: a file is missing (it is named), holds no strict JSON, or belongs to another protocol.
        FileError: the page cannot be written; an older one is as it was.
    """
    return write_page(out / "report.html", page(read(out, summary)))


def page(comparison: Comparison) -> str:
    """The page as text."""
    head = headline(comparison)
    return render(
        "comparison/comparison.html",
        title=f"{head.title} · truestep",
        figures=figures(comparison),
        head=head,
        verdicts=verdicts(comparison),
        conditions=conditions(comparison),
        cautions=[note["text"] for note in comparison.summary["notes"]],
        results=results(comparison),
        memory=memory_and_throughput(comparison),
        drawn=comparison.drawn,
        runs=runs(comparison),
        again=again(comparison.protocol),
        without_ledger=comparison.without_ledger,
        hash=comparison.hash,
        protocol=declared(comparison),
        environments=environments(comparison),
        raw={
            "protocol": comparison.protocol,
            "records": comparison.records,
            "summary": comparison.summary,
        },
    )


def figures(comparison: Comparison) -> tuple[Figure, ...]:
    """The figures, in the order of the page."""
    records, drawn = comparison.records, comparison.drawn
    standings = comparison.summary["candidates"]
    plain = {name: name for name in comparison.candidates}
    return (
        not_yet(SECONDS, records, drawn, comparison.labels),
        not_yet(EXAMPLES, records, drawn, plain),
        paired(SECONDS, standings, drawn, comparison.labels),
        paired(EXAMPLES, standings, drawn, plain),
        time_by_clock(comparison),
        quality_trend(comparison.protocol, records, drawn),
        trend(LOSS, comparison.attempts, drawn),
        scale_trend(comparison.attempts, drawn),
        trend(NORM, comparison.attempts, drawn),
    )
