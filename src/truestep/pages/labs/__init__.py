"""The site of the labs: an index with the map, a page for each lab and for each interactive picture, from one record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from truestep.errors import FileError, RecordError
from truestep.pages.labs.pictures import PICTURES, Picture, seen_in
from truestep.pages.labs.plan import plan
from truestep.pages.labs.shown import shown, words
from truestep.pages.look.page import render, write_page

SCHEMA = 1
_TITLE = re.compile("<title>(Labs · truestep|.* · truestep labs)</title>".encode())
NARROW, WIDE = 1, 5
"""Columns of the map on a phone and on a desk."""


def write(record: Mapping[str, Any], folder: Path) -> Path:
    """Write the site into `folder`, which is made if it is not there; returns the path of its index.

    Measures nothing: every number is the record's (`truestep.labs.tables.site.site`), answers to exercises and the tables of
    the pictures with it. Each page is one file that makes no network request; they link to each other by name.

    Raises:
        RecordError: the record is not the labs', or of another schema.
        FileError: a page cannot be written (each page is then the old one or the new one), or would take the place of a file
            that is none of the site's (nothing is written then).
    """
    written = pages(record)
    prepare(folder, written)
    for name, html in written.items():
        write_page(folder / name, html)
    return folder / "index.html"


def file_names(labs: Iterable[str]) -> tuple[str, ...]:
    """Of the pages of a site with these labs."""
    return ("index.html", *(f"{lab}.html" for lab in labs), *(picture.file for picture in PICTURES))


def prepare(folder: Path, names: Iterable[str]) -> None:
    """Make the folder, so that what cannot be written to is known before anything is run.

    Raises:
        FileError: it cannot be made, or it holds a file of one of the `names` that is no page of the labs.
    """
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file", hint="name a folder, a new one or that of an older site", path=str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"cannot make {folder}: {reason}", hint="name a folder", path=str(folder), reason=reason) from error
    for path in (folder / name for name in names):
        if path.is_file() and not _is_page(path):
            raise FileError(
                f"{path} is no page of the labs, and would be overwritten", hint="name an empty folder", path=str(path)
            )


def _is_page(path: Path) -> bool:
    """By its title, which stands at its beginning."""
    try:
        with path.open("rb") as file:
            return re.search(_TITLE, file.read(4096)) is not None
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"cannot read {path}: {reason}", hint="name an empty folder", path=str(path), reason=reason) from error


def pages(record: Mapping[str, Any]) -> dict[str, str]:
    """Every page's text by its file name; errors as of `write`."""
    if record.get("schema") != SCHEMA or "pictures" not in record:
        raise RecordError(
            f"this is no record of the labs in schema {SCHEMA}",
            hint="take truestep.labs.tables.site.site(labs())",
            schema=record.get("schema"),
        )
    labs = record["labs"]
    texts = [_index(record), *(_lab(record, place) for place in range(len(labs)))]
    texts += [_picture(record, place) for place in range(len(PICTURES))]
    return dict(zip(file_names(lab["name"] for lab in labs), texts, strict=True))


def _index(record: Mapping[str, Any]) -> str:
    return _rendered(
        "labs/index.html",
        ("index.css", "index.js"),
        title="Labs · truestep",
        record=record,
        pictures=PICTURES,
        plans=[(name, plan(record, columns=columns)) for name, columns in (("wide", WIDE), ("narrow", NARROW))],
    )


def _lab(record: Mapping[str, Any], place: int) -> str:
    lab, labs = record["labs"][place], record["labs"]
    return _rendered(
        "labs/lab.html",
        ("asking.css", "asking.js"),
        title=f"{lab['title']} · truestep labs",
        lab=lab,
        shown=shown(lab),
        words=words,
        topic=next(each["title"] for each in record["topics"] if each["name"] == lab["topic"]),
        lessons=record["lessons"],
        titles={each["name"]: each["title"] for each in labs},
        pictures=seen_in(lab["facts"]),
        place=place,
        before=labs[place - 1] if place else None,
        behind=labs[place + 1] if place + 1 < len(labs) else None,
        count=len(labs),
    )


def _picture(record: Mapping[str, Any], place: int) -> str:
    picture: Picture = PICTURES[place]
    return _rendered(
        f"labs/{picture.stem}.html",
        ("picture.css", f"{picture.stem}.js"),
        title=f"{picture.title} · truestep labs",
        picture=picture,
        table=record["pictures"][picture.name],
        labs=[lab for lab in record["labs"] if set(lab["facts"]) & set(picture.facts)],
        before=PICTURES[place - 1] if place else None,
        behind=PICTURES[place + 1] if place + 1 < len(PICTURES) else None,
    )


def _rendered(template: str, own: tuple[str, str], **values: Any) -> str:
    """A page with its own style and script behind those of all labs."""
    style, script = own
    styles, scripts = _own("labs.css") + _own(style), _own("common.js") + _own(script)
    return render(template, figures=(), own_style=styles, own_script=scripts, **values)


@cache
def _own(name: str) -> Markup:
    """A file of this folder, without indents and whole lines of comment, since every page carries it."""
    lines = [line.strip() for line in files("truestep.pages.labs").joinpath(name).read_text(encoding="utf-8").splitlines()]
    text = "\n".join(line for line in lines if line and not line.startswith("//"))
    assert "</" not in text, name
    return Markup(text + "\n")
