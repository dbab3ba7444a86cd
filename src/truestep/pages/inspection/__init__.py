"""The page of an inspection: one HTML file from the record that `truestep inspect --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from truestep.errors import RecordError
from truestep.pages.inspection.headline import advice, assumed, headline
from truestep.pages.inspection.operations import operations
from truestep.pages.inspection.picture import FATES, REGIONS, picture
from truestep.pages.inspection.tables import by_format, by_layer, movements
from truestep.pages.look.page import render, write_page

SCHEMA = 1


def write(record: Mapping[str, Any], path: Path) -> Path:
    """Write one self-contained file to `path` from `record`, what `Inspection.record()` gives; returns `path`.

    Measures nothing: the numbers are the record's own, shown rounded; the record is in the page as JSON, and the picture
    looks up there what a format loses at a scale. The page makes no network request.

    Raises:
        RecordError: the record is no inspection's, or of another schema.
        FileError: the page cannot be written; an older one is as it was.
    """
    return write_page(path, page(record))


def page(record: Mapping[str, Any]) -> str:
    """The page as text; errors as of `write`."""
    if record.get("schema") != SCHEMA or "whole" not in record:
        raise RecordError(
            f"this is no record of an inspection in schema {SCHEMA}",
            hint="save one by truestep inspect TASK --json",
            schema=record.get("schema"),
        )
    head = headline(record)
    return render(
        "inspection/inspection.html",
        title=f"{head.title} · truestep",
        figures=(),
        own_style=_own("inspection.css"),
        own_script=_own("inspection.js"),
        head=head,
        advice=advice(record),
        picture=picture(record),
        regions=REGIONS,
        fates=FATES,
        tables=(*by_layer(record), *by_format(record), *movements(record)),
        operations=operations(record),
        assumed=assumed(record),
        record=record,
    )


def _own(name: str) -> Markup:
    text = files("truestep.pages.inspection").joinpath(name).read_text(encoding="utf-8")
    assert "</" not in text, name
    return Markup(text)
