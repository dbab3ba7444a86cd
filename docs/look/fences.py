"""Takes off the fences the marks of the documents' tests (`console full`, `python sketch`), and lets docstrings wrap."""

from __future__ import annotations

import re
from typing import Any

MARKED = re.compile(r"^(```\w+) (?:full|sketch)$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A page without the marks; mkdocs calls this for each."""
    return MARKED.sub(r"\1", markdown)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """The page of names with a class at each block, for site.css; mkdocs calls this for each page."""
    return html.replace('<div class="highlight">', '<div class="highlight wraps">') if page.file.name == "reference" else html
