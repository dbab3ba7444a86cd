"""How an audit's findings leave the process: lines on stdout, coloured on a terminal, annotations, one document, a SARIF file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.theme import Theme

from truestep.audit.report.document import document
from truestep.audit.report.extent import judged
from truestep.audit.report.github import annotation
from truestep.audit.report.places import source
from truestep.audit.report.sarif import sarif
from truestep.audit.report.sorting import Sorted
from truestep.audit.report.text import ending, lines, signal_name, summary
from truestep.cli._output import print_json
from truestep.disk import atomic

if TYPE_CHECKING:
    from truestep.audit.finding import Rule
    from truestep.audit.process import Audited

_COLOURS = {"place": "bold", "error": "bold red", "warning": "bold yellow", "note": "bold cyan", "rule": "bold", "word": "bold"}


def print_text(audited: Audited, found: Sorted) -> None:
    """Each finding with an empty line behind it, then the summary."""
    told = [line for finding in found.told for line in (*lines(finding), "")]
    known, ignored = len(found.known), len(found.ignored)
    told += [f"mapped: {each['what']}" for each in audited.coverage.get("mapped", ())]
    extent = None if any(each.severity != "note" for each in found.told) else judged(audited.coverage)
    told += [extent] if extent else []
    told.append(summary(found.told, known=known, ignored=ignored, not_judged=_not_judged(audited)))
    theme = Theme({f"audit.{name}": style for name, style in _COLOURS.items()})
    out = Console(file=sys.stdout, highlighter=_Marks(), markup=False, emoji=False, theme=theme)
    for line in told:
        with out.capture() as written:  # rich would end the process where the reader has gone
            out.print(line, soft_wrap=True)
        print(written.get(), end="")


def print_document(audited: Audited, found: Sorted, *, exit_code: int) -> None:
    """The one document of --json."""
    print_json(
        document(
            found.told,
            script=audited.script,
            exit_code=exit_code,
            script_exit=audited.script_exit,
            coverage=audited.coverage,
            known=len(found.known),
            ignored=len(found.ignored),
        )
    )


def print_annotations(found: Sorted) -> None:
    """A workflow command for each finding."""
    for finding in found.told:
        print(annotation(finding, root=_root()))


def write_sarif(path: Path, audited: Audited, found: Sorted, *, rules: Mapping[str, Rule]) -> None:
    """The findings as a SARIF log at `path`, whole or not at all."""
    log = sarif(
        found.told,
        rules=rules,
        version=version("truestep"),
        root=_root(),
        script_ran=audited.interrupted is None and not audited.script_exit,
        not_judged=_not_judged(audited),
    )
    atomic.write(path, (json.dumps(log, indent=1, allow_nan=False) + "\n").encode())


def say_how_it_ended(audited: Audited, *, is_explained: bool, device: str | None) -> None:
    """On stderr, where the script did not come to its end by itself."""
    if audited.interrupted is not None:
        name = signal_name(audited.interrupted)
        print(f"{audited.script} was ended by {name}; the findings are of what it did until then", file=sys.stderr)
    elif audited.script_exit:
        exit_code, traceback = audited.script_exit, audited.traceback
        print(ending(audited.script, script_exit=exit_code, traceback=traceback, is_explained=is_explained), file=sys.stderr)
        if device is None and _wants_cuda(audited):
            print("hint: --device cpu lets a script that was written for CUDA be judged without", file=sys.stderr)


def _wants_cuda(audited: Audited) -> bool:
    """Whether the script may have failed for want of CUDA: torch says so, or it ended by itself, not as called wrongly, and
    names CUDA."""
    if audited.traceback is not None or audited.stories:
        return any(words in (audited.traceback or "") for words in _WITHOUT_CUDA)
    return audited.script_exit != _USAGE and "cuda" in (source(audited.script) or "").lower()


def _not_judged(audited: Audited) -> list[str]:
    return [f"{each['what']} ({each['why']})" for each in audited.coverage["not_judged"]]


def _root() -> Path:
    """What GitHub's paths begin at: the checked-out repository inside one of its actions, else this folder."""
    here, workspace = Path.cwd(), os.environ.get("GITHUB_WORKSPACE")
    return Path(workspace) if workspace and here.is_relative_to(workspace) else here


_USAGE = 2
"""What argparse and its like end a script with that was called wrongly."""

_WITHOUT_CUDA = ("NVIDIA driver", "not compiled with CUDA", "No CUDA GPUs")


class _Marks(RegexHighlighter):
    """What stands out on a terminal; the words say the same."""

    base_style = "audit."
    highlights: ClassVar = [
        r"^(?P<place>\S.*?): (?:(?P<error>error)|(?P<warning>warning)|(?P<note>note)): (?P<rule>[\w-]+):",
        r"^  (?P<word>damage|why|fix|proof|called from|library):",
    ]
