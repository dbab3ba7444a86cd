"""What the audit finds in the script of an exercise: it is written to a file and run in a process of its own, once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from truestep.audit.process import audit

NAME = "loop.py"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An error or a warning of the audit's, at a line of the script."""

    line: int
    words: str


@dataclass(frozen=True, kw_only=True)
class Faults:
    """All of them, the gravest first."""

    faults: tuple[Fault, ...]

    @property
    def lines(self) -> frozenset[int]:
        """Where they are."""
        return frozenset(fault.line for fault in self.faults)


@cache
def faults(script: str) -> Faults:
    """What the audit reports of a script that a lab holds; some seconds, the first time in a process."""
    with TemporaryDirectory(prefix="truestep-labs-") as folder:
        path = Path(folder, NAME)
        path.write_text(script, encoding="utf-8")
        findings = audit([str(path)], device="cpu", silent=True).findings
    found = tuple(
        Fault(line=each.line, words="; ".join(filter(None, (each.message, each.damage, each.fix))))
        for each in findings
        if each.severity != "note" and each.line is not None and Path(each.path or "").name == NAME
    )
    assert found, "the audit finds nothing in a script that is asked about"
    return Faults(faults=found)
