"""Findings that are known, kept in a file: by rule, file and the text of the line, so that moved lines stay known."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from truestep.audit.finding import Finding
from truestep.audit.report.places import line_of
from truestep.disk import atomic
from truestep.disk.canonical import parsed
from truestep.errors import FileError

KIND, SCHEMA = "truestep audit baseline", 1


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """What stays the same of a finding when lines move."""

    path: str | None
    """From the folder of the baseline; None where no line of the script is known."""
    rule: str
    text: str | None
    """Of the line, without the space around it; None where it cannot be read."""


def fingerprint(finding: Finding, folder: Path) -> Fingerprint:
    """The finding's; `folder` is where the baseline lies."""
    path = None if finding.path is None else Path(os.path.relpath(finding.path, folder)).as_posix()
    return Fingerprint(path=path, rule=finding.rule, text=line_of(finding))


def read(path: Path) -> Counter[Fingerprint]:
    """How often each finding is known.

    Raises:
        FileError: there is no such file, or it is torn, something else, or written by a later version.
    """
    hint = f"write it anew: truestep audit --write-baseline {path} ..."
    try:
        document = parsed(path.read_bytes())
    except OSError as error:
        raise FileError(f"the baseline {path} cannot be read: {error.strerror}", hint=hint, path=str(path)) from error
    except ValueError as error:
        raise FileError(f"{path} is no baseline, or a torn one: {error}", hint=hint, path=str(path)) from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise FileError(f"{path} is no baseline: it does not say that it is one", hint=hint, path=str(path))
    if document.get("schema") != SCHEMA:
        found = f"{path} is a baseline of schema {document.get('schema')!r}; this version reads {SCHEMA}"
        raise FileError(found, hint=f"take the truestep that wrote it, or {hint}", path=str(path))
    try:
        return _counts(document["findings"])
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"the baseline {path} holds a finding that is none: {error}", hint=hint, path=str(path)) from error


def marks(findings: Iterable[Finding], folder: Path) -> Counter[Fingerprint]:
    """How often each error and warning stands in `findings`; a note never fails, so nobody need know it."""
    return Counter(fingerprint(each, folder) for each in findings if each.severity != "note")


def write(path: Path, known: Mapping[Fingerprint, int]) -> None:
    """Make `known` the baseline at `path`, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    entries = [{**asdict(mark), "count": count} for mark, count in known.items()]
    entries.sort(key=lambda each: (each["path"] or "", each["text"] or "", each["rule"]))  # so that a file in git moves little
    document = {"kind": KIND, "schema": SCHEMA, "findings": entries}
    atomic.write(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())


def parted(
    findings: Sequence[Finding], known: Mapping[Fingerprint, int], folder: Path
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings that are new, and those that are known: as many of each fingerprint as the baseline counts, notes never."""
    left = Counter(known)
    new, old = [], []
    for finding in findings:
        mark = fingerprint(finding, folder)
        if finding.severity != "note" and left[mark] > 0:
            left[mark] -= 1
            old.append(finding)
        else:
            new.append(finding)
    return tuple(new), tuple(old)


def _counts(entries: Any) -> Counter[Fingerprint]:
    counts = Counter(dict(map(_entry, entries)))
    if len(counts) < len(entries):
        raise ValueError("one stands twice")
    return counts


def _entry(each: Any) -> tuple[Fingerprint, int]:
    mark, count = Fingerprint(**{name: each[name] for name in ("path", "rule", "text")}), each["count"]
    words = [word for word in (mark.path, mark.text) if word is not None]
    if not all(isinstance(word, str) for word in (mark.rule, *words)) or type(count) is not int or count < 1:
        raise ValueError(repr(each))
    return mark, count
