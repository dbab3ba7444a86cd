"""One self-contained HTML file: the template rendered with style, script, figures and data inside it, written atomically."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from truestep.errors import FileError
from truestep.pages import words
from truestep.pages.look.embed import json_script
from truestep.pages.look.figure import Figure


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("truestep.pages", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["json_script"] = json_script
    environment.filters |= {"seconds": words.seconds, "percent": words.percent, "count": words.count}
    return environment


def render(template: str, *, title: str, figures: Iterable[Figure], **values: Any) -> str:
    """The page as text: `template` (a path below pages/) over the base template, with everything it needs inlined.

    plotly's script is inlined once, as text that page.js starts after the first paint, and only where a figure is drawn. The
    page's policy (a Content-Security-Policy in its head) forbids every request, so a page that needed the network would fail
    in the browser test.
    """
    drawn = {figure.name: figure for figure in figures}
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            figures=drawn,
            style=_inlined("page.css"),
            script=_inlined("page.js"),
            plotly=_plotly() if any(figure.panels for figure in drawn.values()) else None,
            **values,
        )
    )


def write_page(path: Path, html: str) -> Path:
    """Write `html` to `path` in one step, so that a reader meets the old page or the new one; returns `path`.

    What is no regular file (a device, a pipe) is written to as it is, never replaced by a file.

    Raises:
        FileError: the folder cannot be written to; the old page is as it was.
    """
    data = html.encode("utf-8", errors="replace")  # a lone surrogate in a record has no bytes; it is shown as "?"
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return path
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "make room, or name a folder that can be written to; an older page at this path is unchanged"
        raise FileError(f"cannot write {path}: {reason}", hint=hint, path=str(path), reason=reason) from error
    return path


@cache
def _inlined(name: str) -> Markup:
    text = files("truestep.pages.look").joinpath(name).read_text(encoding="utf-8")
    assert "</" not in text, name
    return Markup(text)


@cache
def _plotly() -> Markup:
    """plotly.js with the kinds of traces that figures have; where it comes from, the folder's README tells."""
    text = files("truestep.pages.look").joinpath("plotly", "plotly-basic.min.js").read_text(encoding="utf-8")
    assert "</script" not in text.lower(), "plotly.js would end its own element"
    return Markup(text)
