"""Findings as GitHub's workflow commands, which it shows beside the lines of a pull request."""

from __future__ import annotations

from pathlib import Path

from truestep.audit.finding import Finding, Severity
from truestep.audit.report.places import below
from truestep.audit.report.text import told

COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}


def annotation(finding: Finding, *, root: Path) -> str:
    """One line, without its end; `root` is the repository's.

    Source: docs.github.com, "Workflow commands for GitHub Actions"; its escapes are those of the runner's own toolkit.

    >>> finding = Finding(rule="scale-moved", severity="error", path="a,b.py", line=3, message="100% too small", fix="divide")
    >>> annotation(finding, root=Path.cwd())
    '::error file=a%2Cb.py,line=3,title=truestep scale-moved::100%25 too small%0A  fix: divide'
    """
    where = {} if finding.path is None else {"file": below(finding.path, root), "line": str(finding.line)}
    properties = where | {"title": f"truestep {finding.rule}"}
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    said = "\n".join(told(finding))
    return f"::{COMMANDS[finding.severity]} {written}::{_data(said)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
