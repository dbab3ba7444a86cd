"""From what a run did to what was wrong with it: every rule, one finding for one cause, the gravest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from truestep.audit.finding import SEVERITIES, Finding
from truestep.audit.rules import rules
from truestep.audit.rules.unexplained_gradient import RULE as UNEXPLAINED
from truestep.audit.story import Story


def judge(story: Story) -> tuple[Finding, ...]:
    """The findings of all rules: the same rule at the same line once, errors first, then by place.

    A gradient that differs is told as unexplained only where no rule finds an error: else that is its reason.
    """
    findings = [finding for rule in rules().values() if rule is not UNEXPLAINED for finding in rule(story)]
    if not any(finding.severity == "error" for finding in findings):
        findings += UNEXPLAINED(story)
    return merged(findings)


def merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each rule and line, the gravest one's words and the sum of all times."""
    found: dict[tuple[str, str | None, int | None], Finding] = {}
    for finding in findings:
        key = (finding.rule, finding.path, finding.line)
        known = found.get(key)
        if known is None:
            found[key] = finding
        else:
            gravest = min(known, finding, key=lambda each: SEVERITIES.index(each.severity))
            found[key] = replace(gravest, times=known.times + finding.times)
    return tuple(sorted(found.values(), key=_gravity))


def _gravity(finding: Finding) -> tuple[int, str, int, str]:
    return SEVERITIES.index(finding.severity), finding.path or "", finding.line or 0, finding.rule
