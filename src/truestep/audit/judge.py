"""From what a run did to what was wrong with it: every rule, one finding for one cause, the gravest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from truestep.audit.finding import SEVERITIES, Finding
from truestep.audit.rules import rules
from truestep.audit.story import Story


def judge(story: Story) -> tuple[Finding, ...]:
    """The findings of all rules: the same rule at the same line once, errors first, then by place."""
    return merged(finding for rule in rules().values() for finding in rule(story))


def merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each rule and line, the first one's words and the sum of all times."""
    found: dict[tuple[str, str | None, int | None], Finding] = {}
    for finding in findings:
        key = (finding.rule, finding.path, finding.line)
        first = found.get(key)
        found[key] = finding if first is None else replace(first, times=first.times + finding.times)
    return tuple(sorted(found.values(), key=_gravity))


def _gravity(finding: Finding) -> tuple[int, str, int, str]:
    return SEVERITIES.index(finding.severity), finding.path or "", finding.line or 0, finding.rule
