"""Findings as lines for a reader: place, severity and rule first, then what proves it, what it did, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from signal import Signals

from truestep.audit.finding import SEVERITIES, Finding, Rule
from truestep.pages.words import counted


def lines(finding: Finding) -> Iterator[str]:
    """One finding: a line that says what happened, and an indented one for each thing that is known of it.

    >>> finding = Finding(
    ...     rule="clip-before-unscale", severity="error", path="train.py", line=34,
    ...     message="the clip saw 65536 times the gradient", evidence=("limit 1",), fix="call scaler.unscale_() before it",
    ... )
    >>> print("\\n".join(lines(finding)))
    train.py:34: error: clip-before-unscale: the clip saw 65536 times the gradient
      limit 1
      fix: call scaler.unscale_() before it
    """
    first, *rest = told(finding)
    yield f"{finding.place}: {finding.severity}: {finding.rule}: {first}"
    yield from rest


def told(finding: Finding) -> Iterator[str]:
    """Its message, then the indented lines below."""
    head, *rest = finding.message.splitlines() or [""]
    yield head
    known = [*rest, *finding.evidence]
    known += [f"seen {finding.times:,} times"] if finding.times > 1 else []
    known += [f"{word}: {value}" for word, value in _named(finding) if value]
    for each in known:
        first, *more = each.splitlines() or [""]
        yield f"  {first}"
        yield from (f"    {line}" for line in more)


def _named(finding: Finding) -> Iterator[tuple[str, str | None]]:
    yield "damage", finding.damage
    yield "why", finding.why
    yield "fix", finding.fix
    yield "proof", finding.proof
    yield from (("called from", f"{place} in {place.function}") for place in finding.callers)
    yield "library", None if finding.library is None else str(finding.library)


def summary(findings: Sequence[Finding], *, known: int = 0, ignored: int = 0, not_judged: Iterable[str] = ()) -> str:
    """The last line: how many of each severity, how many were passed over, and what could not be judged.

    >>> summary([], known=1, not_judged=["torch.compile hides the step of train.py:40"])
    '0 errors, 0 warnings, 0 notes; 1 known; not judged: torch.compile hides the step of train.py:40'
    """
    counts = ", ".join(counted(sum(each.severity == severity for each in findings), severity) for severity in SEVERITIES)
    passed = ", ".join(f"{count:,} {word}" for count, word in ((known, "known"), (ignored, "ignored")) if count)
    unjudged = ", ".join(not_judged)
    return "; ".join(part for part in (counts, passed, unjudged and f"not judged: {unjudged}") if part)


def explained(rule: Rule) -> Iterator[str]:
    """All that is to be said of a rule."""
    yield f"{rule.id}: {rule.title}"
    for word, said in (("why", rule.why), ("bad", rule.bad), ("good", rule.good), ("sources", "\n".join(rule.sources))):
        if said:
            yield ""
            yield f"{word}:"
            yield from (f"  {line}".rstrip() for line in said.strip("\n").splitlines())


def ending(script: str, *, script_exit: int, traceback: str | None, is_explained: bool) -> str:
    """How a script failed, in a line.

    >>> ending("train.py", script_exit=1, traceback="...\\nValueError: no data\\n", is_explained=False)
    'train.py ended with exit code 1: ValueError: no data; no finding says why'
    >>> ending("train.py", script_exit=-9, traceback=None, is_explained=True)
    'train.py was ended by SIGKILL'
    """
    how = f"ended with exit code {script_exit}" if script_exit > 0 else f"was ended by {signal_name(-script_exit)}"
    last = [line for line in (traceback or "").splitlines() if line.strip()][-1:]
    return ": ".join([f"{script} {how}", *last]) + ("" if is_explained else "; no finding says why")


def signal_name(number: int) -> str:
    """A signal as people write it.

    >>> signal_name(15), signal_name(40)
    ('SIGTERM', 'signal 40')
    """
    try:
        return Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
