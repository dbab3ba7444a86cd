"""What `audit --json` prints: one document with every finding, what was passed over, and what was not judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from truestep.audit.finding import Finding, Rule

SCHEMA = 1


def document(
    findings: Sequence[Finding],
    *,
    script: str,
    exit_code: int,
    script_exit: int | None,
    coverage: dict[str, Any],
    known: int = 0,
    ignored: int = 0,
) -> dict[str, Any]:
    """The document as a JSON value; `exit_code` is the audit's own, `script_exit` the script's (-N: ended by signal N)."""
    return {
        "schema": SCHEMA,
        "script": script,
        "exit_code": exit_code,
        "script_exit": script_exit,
        "findings": [finding.as_dict() for finding in findings],
        "known": known,
        "ignored": ignored,
        "coverage": coverage,
    }


def rules_document(rules: Iterable[Rule]) -> dict[str, Any]:
    """Rules as a JSON value."""
    names = ("id", "title", "why", "bad", "good", "sources")
    return {"schema": SCHEMA, "rules": [{name: getattr(rule, name) for name in names} for rule in rules]}
