"""What a rule is and what it finds: a mistake with its place, its numbers, its damage, and the smallest change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from truestep.audit.site import Place, Site

if TYPE_CHECKING:
    from truestep.audit.story import Story

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One mistake at one place. A note is never a failure."""

    rule: str
    severity: Severity
    path: str | None
    """None where no line of the user's own code is known."""
    line: int | None
    message: str
    """What happened, in one sentence with its numbers."""
    evidence: tuple[str, ...] = ()
    """What was measured, each with its unit."""
    damage: str | None = None
    """How wrong the update was, as measured; None where nothing was measured."""
    why: str = ""
    fix: str = ""
    """The smallest change."""
    times: int = 1
    """How often it was seen."""
    callers: tuple[Place, ...] = ()
    library: Place | None = None
    proof: str | None = None
    """What a re-run in the proposed order gave; None where none was made."""

    @property
    def place(self) -> str:
        """`path:line`, or where no line is known, words."""
        return "no line of the script" if self.path is None else f"{self.path}:{self.line}"

    def as_dict(self) -> dict[str, Any]:
        """The finding as `audit --json` gives it."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "path": self.path,
            "line": self.line,
            "message": self.message,
            "evidence": list(self.evidence),
            "damage": self.damage,
            "why": self.why,
            "fix": self.fix,
            "times": self.times,
            "callers": [str(place) for place in self.callers],
            "library": None if self.library is None else str(self.library),
            "proof": self.proof,
        }


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A kind of mistake, how it is told, and what to do about it."""

    id: str
    title: str
    """What is wrong, in a few words."""
    why: str
    """Why it matters, in one or two sentences."""
    bad: str
    """The smallest loop that has it."""
    good: str
    """The same loop without it."""
    sources: tuple[str, ...]
    """Where people reported it or where it is written down."""
    check: Callable[[Story], Iterable[Finding]] = field(repr=False)

    def __call__(self, story: Story) -> Iterator[Finding]:
        """Its findings in `story`; each bears the rule's id and reason."""
        for finding in self.check(story):
            yield replace(finding, rule=self.id, why=finding.why or self.why)


def found(
    site: Site | None,
    message: str,
    *,
    severity: Severity = "error",
    evidence: Iterable[str] = (),
    damage: str | None = None,
    fix: str = "",
    times: int = 1,
) -> Finding:
    """A finding at `site`, before its rule signs it."""
    return Finding(
        rule="",
        severity=severity,
        path=None if site is None else site.path,
        line=None if site is None else site.line,
        message=message,
        evidence=tuple(evidence),
        damage=damage,
        fix=fix,
        times=times,
        callers=() if site is None else site.callers,
        library=None if site is None else site.library,
    )
