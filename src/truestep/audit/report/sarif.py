"""Findings as SARIF 2.1.0, which code scanners and editors read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from truestep.audit.finding import Finding, Rule
from truestep.audit.report.baseline import fingerprint
from truestep.audit.report.places import below
from truestep.audit.report.text import told
from truestep.disk.canonical import digest

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
MARK = "truestep/v1"
"""The name of our fingerprints: rule, file and text of the line, and which of several such it is."""


def sarif(
    findings: Sequence[Finding],
    *,
    rules: Mapping[str, Rule],
    version: str,
    root: Path,
    script_ran: bool,
    not_judged: Iterable[str] = (),
) -> dict[str, Any]:
    """One run of the audit as a SARIF log.

    Args:
        rules: Every rule that there is, by its id.
        root: What the log's URIs begin at; files elsewhere have absolute ones.
        script_ran: Whether the script came to its end; False makes `executionSuccessful` false.

    Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
    """
    order = {rule: place for place, rule in enumerate(rules)}
    notes = [{"level": "note", "message": {"text": f"not judged: {each}"}} for each in not_judged]
    driver = {"name": "truestep audit", "version": version, "rules": [_descriptor(rule) for rule in rules.values()]}
    marked = zip(findings, _marks(findings, root), strict=True)
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": script_ran, "toolExecutionNotifications": notes}],
        "results": [_result(each, order=order, mark=mark, root=root) for each, mark in marked],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _descriptor(rule: Rule) -> dict[str, Any]:
    sources = "".join(f"\n- {source}" for source in rule.sources)
    said = f"{rule.why}\n\nWrong:\n\n{rule.bad.strip()}\n\nRight:\n\n{rule.good.strip()}"
    shown = f"{rule.why}\n\nWrong:\n\n```python\n{rule.bad.strip()}\n```\n\nRight:\n\n```python\n{rule.good.strip()}\n```"
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": said + sources, "markdown": shown + sources},
    }


def _result(finding: Finding, *, order: Mapping[str, int], mark: str, root: Path) -> dict[str, Any]:
    where = [] if finding.path is None or finding.line is None else [_location(finding.path, finding.line, root)]
    callers = [_location(place.path, place.line, root) | {"message": {"text": "called from"}} for place in finding.callers]
    return {
        "ruleId": finding.rule,
        "ruleIndex": order[finding.rule],
        "level": finding.severity,
        "message": {"text": "\n".join(told(finding))},
        "locations": where,
        "relatedLocations": callers,
        "occurrenceCount": finding.times,
        "partialFingerprints": {MARK: mark},
    }


def _location(path: str, line: int, root: Path) -> dict[str, Any]:
    inside = below(path, root)
    absolute = Path(inside).is_absolute()
    artifact = {"uri": Path(inside).as_uri()} if absolute else {"uri": quote(inside), "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}


def _marks(findings: Iterable[Finding], root: Path) -> list[str]:
    """A fingerprint for each finding, different for equal ones."""
    seen: Counter[Any] = Counter()
    marks = []
    for finding in findings:
        mark = fingerprint(finding, root)
        marks.append(digest([mark.path, mark.rule, mark.text, seen[mark]]))
        seen[mark] += 1
    return marks
