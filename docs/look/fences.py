"""Takes the marks of the documents' tests (`console full`, `python sketch`) off the fences, which the site does not know."""

from __future__ import annotations

import re
from typing import Any

MARKED = re.compile(r"^(```\w+) (?:full|sketch)$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A page without the marks; mkdocs calls this for each."""
    return MARKED.sub(r"\1", markdown)
