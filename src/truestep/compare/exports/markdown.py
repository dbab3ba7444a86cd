"""A comparison's tables as Markdown, to paste into an issue or a pull request. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from truestep.compare import table
from truestep.compare.protocol import Protocol
from truestep.compare.verdict import Summary


def markdown(protocol: Protocol, summary: Summary) -> str:
    """The terminal's tables, verdicts and limits as GitHub's Markdown, ended by a line feed."""
    return "\n".join(_lines(protocol, summary)) + "\n"


def _lines(protocol: Protocol, summary: Summary) -> Iterator[str]:
    standings = [row.standing for row in summary.rows]
    yield text(table.title(protocol))
    yield ""
    yield from _table(table.TO_TARGET, map(table.to_target_row, standings), words=2)
    yield ""
    yield from _table(*table.on_the_way(standings), words=1)
    rivals = [(row, row.against) for row in summary.rows if row.against is not None]
    if rivals:
        yield ""
        yield text(f"Against {protocol.baseline}, by seed:")
        yield ""
        yield from _table(table.AGAINST, (table.against_row(row) for row, _ in rivals), words=1)
        yield ""
        yield from (text(f"- {row.standing.candidate}: {against.text}", listed=True) for row, against in rivals)
    yield ""
    yield from (text(f"- {note}", listed=True) for note in (*table.FOOTERS, *(note.text for note in summary.notes)))
    yield ""
    yield f"Protocol `{summary.protocol_hash}`"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, words: int) -> Iterator[str]:
    """The first `words` columns are words, the rest flush right."""
    yield _row(columns)
    yield _row([":---" if place < words else "---:" for place in range(len(columns))], plain=True)
    yield from map(_row, rows)


def _row(cells: Iterable[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(cell if plain else text(cell) for cell in cells)} |"


def text(words: str, *, listed: bool = False) -> str:
    r"""`words` as Markdown shows them literally, on one line; `listed` leaves the dash of a list at its beginning.

    >>> text("<b>a|b</b> *c* _d_\n[x](y)")
    '\\<b\\>a\\|b\\</b\\> \\*c\\* \\_d\\_ \\[x\\](y)'
    >>> text("- 1 of 2", listed=True), text("# 1")
    ('- 1 of 2', '\\# 1')
    """
    bare = " ".join(words.split())
    dash, rest = ("- ", bare[2:]) if listed else ("", bare)
    return dash + re.sub(r"([\\`*_\[\]<>|#~&@])", r"\\\1", rest)
