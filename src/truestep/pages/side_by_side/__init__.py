"""The page of two comparisons side by side: what they share, what differs, and each candidate's ratio between them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truestep.pages.comparison.declared import declared
from truestep.pages.comparison.reading import Comparison
from truestep.pages.look.page import render, write_page
from truestep.pages.side_by_side.differences import differences
from truestep.pages.side_by_side.figures import figures
from truestep.pages.side_by_side.ratios import ratios
from truestep.pages.side_by_side.sides import NAMES, Sides
from truestep.pages.side_by_side.tables import on_the_way, to_the_target


def write(path: Path, left: Comparison, right: Comparison, between: Mapping[str, Any], *, places: tuple[str, str]) -> Path:
    """Write the page of `left` (called A) and `right` (called B) to `path`, one self-contained file; returns `path`.

    Args:
        between: what holds between them, as `compare.between` says it. The page computes nothing.
        places: where each lies, in words.

    Raises:
        FileError: the page cannot be written; an older one is as it was.
    """
    return write_page(path, page(Sides(left=left, right=right, between=between), places))


def page(sides: Sides, places: tuple[str, str]) -> str:
    """The page as text."""
    both = (sides.left, sides.right)
    title = f"{sides.left.protocol['task']}: {places[0]} and {places[1]}"
    return render(
        "side_by_side/side_by_side.html",
        title=f"{title} · truestep",
        figures=figures(sides),
        sides=[(name, place, one) for name, place, one in zip(NAMES, places, both, strict=True)],
        task=sides.left.protocol["task"],
        ratios=ratios(sides),
        differences=differences(sides),
        absent=sides.absent,
        looks={label: sides.drawn[name] for name, label in sides.labels.items()},
        to_the_target=to_the_target(sides),
        on_the_way=on_the_way(sides),
        protocol=[(name, words) for name, words in declared(sides.left) if name not in sides.differing],
        raw={"between": sides.between}
        | {
            f"{kind}-{name.lower()}": getattr(one, kind)
            for name, one in zip(NAMES, both, strict=True)
            for kind in ("protocol", "records", "summary")
        },
    )
