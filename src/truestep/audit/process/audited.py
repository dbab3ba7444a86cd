"""An audit of a script: run it, hear what its processes saw, judge that, and say what was not judged."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from truestep.audit.finding import Finding
from truestep.audit.judge import judge, merged
from truestep.audit.process.account import Request
from truestep.audit.process.child import run
from truestep.audit.process.command import checked
from truestep.audit.process.gathering import Gathered, gather
from truestep.audit.process.ranks import compared
from truestep.audit.report.extent import NOTHING, extent
from truestep.audit.sources import Sources
from truestep.audit.story import Story
from truestep.audit.trace.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What came of it."""

    findings: tuple[Finding, ...]
    """Over all processes: the same rule at the same line once, the gravest first."""
    coverage: dict[str, Any]
    """Counts of what was judged, and under `not_judged` each `what` that was not, with its `why`."""
    script: str
    script_exit: int
    """The script's exit code; -N where signal N ended it."""
    interrupted: signal.Signals | None
    """SIGINT or SIGTERM where the audit was sent one while the script ran."""
    traceback: str | None
    """As Python prints it, where an exception ended a process that had an optimizer."""
    stories: tuple[Story, ...]
    """What each process with an optimizer did, ranks in order."""


def audit(
    command: Sequence[str],
    *,
    module: bool = False,
    max_updates: int | None = None,
    device: str | None = None,
    stdout_to_stderr: bool = False,
    silent: bool = False,
    right: bool = False,
) -> Audited:
    """Runs a script, or with `module` a module, in an interpreter of its own and judges what all its processes did.

    The script runs as it would without an audit: with its own arguments, folder, streams and exit code. While it does,
    Ctrl-C is its own, and SIGTERM is passed on to it; what was seen until then is judged.

    Args:
        command: The script or module, and its arguments.
        max_updates: Attempts of one optimizer in one process after which the script is ended; None lets it run to its end.
        device: `cpu` has everything that names CUDA use the CPU.
        stdout_to_stderr: What the script prints goes to stderr.
        silent: What the script says is heard by nobody.
        right: Each optimizer is given the right gradient instead of a wrong one, which changes the run.

    Raises:
        UsageError: There is no such script; nothing was started.
        RunError: The script is no Python; nothing was started.
    """
    arguments = checked(command, module=module)
    settings = Settings(max_updates=max_updates, device=device, right=right)
    with TemporaryDirectory(prefix="truestep-audit-", ignore_cleanup_errors=True) as folder:  # which only we may read
        ended = run(arguments, Request(folder=folder, settings=settings), stdout_to_stderr=stdout_to_stderr, silent=silent)
        gathered = gather(Path(folder))
    stories = compared(
        [
            Story(events=each.events, totals=each.totals, sources=Sources(each.arguments), rank=each.rank)
            for each in gathered.accounts
        ]
    )
    return Audited(
        findings=merged(finding for story in stories for finding in judge(story)),
        coverage=_coverage(gathered, settings, extent(stories)),
        script=command[0],
        script_exit=ended.exit,
        interrupted=ended.interrupted,
        traceback=next((each.traceback for each in gathered.accounts if each.traceback is not None), None),
        stories=stories,
    )


def _coverage(gathered: Gathered, settings: Settings, counts: dict[str, int]) -> dict[str, Any]:
    """Counts over all processes, and what was not judged, each thing once."""
    accounts = gathered.accounts
    unseen = [each for account in accounts for each in account.coverage["not_judged"]] + list(gathered.missing)
    if not accounts:
        unseen.append({"what": "the run", "why": "no process that was watched made an optimizer of torch's"})
    elif not counts["attempts"]:
        unseen.append(NOTHING)
    most = settings.max_updates
    if most is not None and any(number >= most for each in accounts for number in each.totals.attempts.values()):
        unseen.append({"what": f"whatever comes after {most} attempts", "why": "the script was ended there, as was asked"})
    return {
        "processes": len(accounts),
        **counts,
        "mapped": [each for account in accounts[:1] for each in account.coverage.get("mapped", [])],
        "not_judged": [each for place, each in enumerate(unseen) if each not in unseen[:place]],
    }
