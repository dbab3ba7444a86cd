"""Remarks in a script that pass a finding over: `# truestep: ignore[rule-id] reason`, on its line or alone above it.

A remark without a reason does not hold. Comments are found by Python's own tokenizer: a string that looks like one is none.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO

from truestep.audit.finding import Finding, Rule, Severity

_REMARK = re.compile(r"#\s*truestep:\s*ignore\b\s*(?:\[(?P<rules>[^\]]*)\])?(?P<reason>.*)")
_NEXT_REMARK = re.compile(r"(?:^|\s)#\s.*")
"""Where a reason ends and another tool's comment begins; `see #12` is part of a reason."""


@dataclass(frozen=True, kw_only=True)
class Ignore:
    """One remark, and the lines of the statement that it is about."""

    path: str
    line: int
    rules: tuple[str, ...]
    reason: str | None
    """None where there is none, and then it does not hold."""
    first: int
    last: int

    def is_about(self, finding: Finding) -> bool:
        """Whether the finding lies in its lines and is of one of its rules."""
        here = finding.path == self.path and finding.line is not None and self.first <= finding.line <= self.last
        return here and finding.rule in self.rules


def ignores_in(text: str, path: str) -> Iterator[Ignore]:
    """The remarks of a Python file; what follows where it stops to be Python is not read.

    >>> (remark,) = ignores_in("# truestep: ignore[scale-moved] by design\\nstep()\\n", "train.py")
    >>> remark.line, remark.rules, remark.reason, remark.first
    (1, ('scale-moved',), 'by design', 2)
    """
    above: list[tokenize.TokenInfo] = []
    inside: list[tokenize.TokenInfo] = []
    begun: int | None = None
    for token in _tokens(text):
        here = token.start[0]
        if token.type == tokenize.COMMENT:
            (above if begun is None else inside).append(token)
        elif token.type == tokenize.NL:
            if begun is None and above and above[-1].start[0] != here:  # an empty line parts what stands above it
                yield from _of_nothing(above, path)
                above = []
        elif token.type == tokenize.NEWLINE and begun is not None:
            for each in (*above, *inside):
                yield from _read(each, path, begun, here)
            above, inside, begun = [], [], None
        elif begun is None:  # an indent stands on the line of what it indents
            begun = here
    yield from _of_nothing([*above, *inside], path)


def passed_over(
    findings: Iterable[Finding], ignores: Sequence[Ignore], *, rules: Collection[str]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings that stay, with those about the remarks themselves, and the findings that a remark passes over.

    Args:
        rules: The ids that there are.
    """
    stay: list[Finding] = []
    passed: list[Finding] = []
    used: set[tuple[Ignore, str]] = set()
    for finding in findings:
        about = [(each, finding.rule) for each in ignores if each.reason and each.is_about(finding)]
        used.update(about)
        (passed if about else stay).append(finding)
    complaints = (complaint for each in ignores for complaint in _complaints(each, rules, used))
    return (*stay, *complaints), tuple(passed)


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(StringIO(text).readline)
    except (tokenize.TokenError, SyntaxError):
        return


def _read(comment: tokenize.TokenInfo, path: str, first: int, last: int) -> Iterator[Ignore]:
    match = _REMARK.search(comment.string)
    if match is not None:
        rules = tuple(name.strip() for name in (match["rules"] or "").split(",") if name.strip())
        said = re.search(r"\w.*", _NEXT_REMARK.sub("", match["reason"]))
        reason = None if said is None else said[0].rstrip()
        yield Ignore(path=path, line=comment.start[0], rules=rules, reason=reason, first=first, last=last)


def _of_nothing(comments: Iterable[tokenize.TokenInfo], path: str) -> Iterator[Ignore]:
    for each in comments:
        yield from _read(each, path, each.start[0], each.start[0])


def _complaints(ignore: Ignore, rules: Collection[str], used: Collection[tuple[Ignore, str]]) -> Iterator[Finding]:
    unknown = [rule for rule in ignore.rules if rule not in rules]
    for rule in unknown:
        near = get_close_matches(rule, rules, n=3)
        fix = f"write one of {', '.join(near)}" if near else "truestep audit --rules lists the ids"
        yield _finding(UNKNOWN, ignore, "warning", f"there is no rule {rule}", fix)
    if not ignore.rules:
        yield _finding(UNKNOWN, ignore, "warning", "the remark names no rule", "write ignore[rule-id] and the reason")
    if not ignore.reason:
        yield _finding(UNREASONED, ignore, "warning", "the remark gives no reason, so it does not hold", "write why behind it")
        return
    for rule in ignore.rules:
        if rule in rules and (ignore, rule) not in used:
            yield _finding(
                UNUSED, ignore, "note", f"no finding of {rule} was passed over in this run", "remove it, where it never is"
            )


def _finding(rule: Rule, ignore: Ignore, severity: Severity, message: str, fix: str) -> Finding:
    return Finding(rule=rule.id, severity=severity, path=ignore.path, line=ignore.line, message=message, why=rule.why, fix=fix)


def _never(story: object) -> tuple[Finding, ...]:
    """These rules are about the text of a script; a story has none of them."""
    return ()


_LOOP = "scaler.scale(loss).backward()\nclip_(model.parameters(), 65536.0){}\nscaler.step(optimizer)\n"

UNREASONED = Rule(
    id="ignore-without-reason",
    title="a finding is to be ignored, and nobody says why",
    why="A year later nobody can tell an accepted finding from a forgotten one.",
    bad=_LOOP.format("  # truestep: ignore[clip-before-unscale]"),
    good=_LOOP.format("  # truestep: ignore[clip-before-unscale] the limit is in scaled units"),
    sources=(),
    check=_never,
)
UNKNOWN = Rule(
    id="ignore-unknown-rule",
    title="a remark ignores a rule that does not exist",
    why="It passes over nothing, though it looks as if it did.",
    bad=_LOOP.format("  # truestep: ignore[clip-before-scale] the limit is in scaled units"),
    good=_LOOP.format("  # truestep: ignore[clip-before-unscale] the limit is in scaled units"),
    sources=(),
    check=_never,
)
UNUSED = Rule(
    id="unused-ignore",
    title="a remark ignores a finding that was not made",
    why="It will hide the next finding of its rule on this line, which nobody has looked at.",
    bad="scaler.unscale_(optimizer)  # truestep: ignore[clip-before-unscale] the limit is in scaled units\n",
    good="scaler.unscale_(optimizer)\n",
    sources=(),
    check=_never,
)
RULES = {rule.id: rule for rule in (UNKNOWN, UNREASONED, UNUSED)}
"""What can be wrong with a remark."""
