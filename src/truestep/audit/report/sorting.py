"""What is told of the findings, what a remark in the source passes over, and what a baseline knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from truestep.audit.finding import Finding
from truestep.audit.report.baseline import Fingerprint, parted
from truestep.audit.report.ignores import ignores_in, passed_over
from truestep.audit.report.places import source


@dataclass(frozen=True, kw_only=True)
class Sorted:
    """Findings by what becomes of them."""

    told: tuple[Finding, ...]
    known: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()

    def fails(self, least: Literal["error", "warning"]) -> bool:
        """Whether any that is told is at least so severe."""
        return any(finding.severity in ("error", least) for finding in self.told)

    def without(self, known: Mapping[Fingerprint, int], folder: Path) -> Sorted:
        """Those of a baseline in `folder` are known, and told no more."""
        told, old = parted(self.told, known, folder)
        return replace(self, told=told, known=(*self.known, *old))


def without_ignored(findings: Iterable[Finding], *, script: str, rules: Collection[str]) -> Sorted:
    """The findings, sorted by the remarks in the script and in every file that a finding lies in.

    Args:
        rules: The ids that a remark may name.
    """
    findings = tuple(findings)
    files = dict.fromkeys([script, *(each.path for each in findings if each.path is not None)])
    remarks = [remark for path in files for remark in ignores_in(source(path) or "", path)]
    told, ignored = passed_over(findings, remarks, rules=rules)
    return Sorted(told=told, ignored=ignored)
