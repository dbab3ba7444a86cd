"""Where findings lie, as a reader or a machine wants it: paths below a root, and the text of a line."""

from __future__ import annotations

import os
import re
import tokenize
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePath

from truestep.audit.finding import Finding
from truestep.audit.site import Place


def below(path: str, root: Path) -> str:
    """`path` from `root`, with slashes; absolute where it does not lie below it.

    >>> below("/home/me/project/train.py", Path("/home/me/project")), below("/usr/lib/python/a.py", Path("/home/me/project"))
    ('train.py', '/usr/lib/python/a.py')
    """
    absolute = PurePath(os.path.abspath(path))
    return (absolute.relative_to(root) if absolute.is_relative_to(root) else absolute).as_posix()


def seen_from(root: Path, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with every path as `below` gives it, in their words too."""

    inside = re.compile(rf"(?<![\w./-]){re.escape(root.as_posix().rstrip('/'))}/(?=\w)")

    def place(each: Place) -> Place:
        return replace(each, path=below(each.path, root))

    def words(text: str) -> str:
        return inside.sub("", text)

    return tuple(
        replace(
            finding,
            path=None if finding.path is None else below(finding.path, root),
            message=words(finding.message),
            evidence=tuple(map(words, finding.evidence)),
            callers=tuple(map(place, finding.callers)),
            library=None if finding.library is None else place(finding.library),
        )
        for finding in findings
    )


def source(path: str) -> str | None:
    """The text of a Python file in the encoding that it declares; None where it cannot be read."""
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, SyntaxError, ValueError):  # gone, in no encoding that exists, or not in the one that it declares
        return None


def line_of(finding: Finding) -> str | None:
    """The text of the finding's line without the space around it; None where there is none."""
    text = None if finding.path is None else source(finding.path)
    if text is None or finding.line is None:
        return None
    lines = text.split("\n")
    return lines[finding.line - 1].strip() if finding.line <= len(lines) else None
