"""A pilot: float32 on seeds that no comparison uses, run to the end of the budget, to set the target by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from truestep.compare.candidate import Candidate
from truestep.compare.declare import Asked, declare
from truestep.compare.folder import Folder
from truestep.compare.kept import read_protocol
from truestep.compare.race import Event, race
from truestep.compare.target import Pilot, found
from truestep.errors import ProtocolError, RecordError

FOLDER = "pilot"
"""Below the comparison's, where the runs of its pilot are kept."""
FIRST_SEED = 100
"""Of a pilot, where the comparison has fewer seeds than that."""
LEAST_RUNS = 5


def piloted(
    asked: Asked,
    out: Path,
    *,
    runs: int,
    slack: float | None,
    resume: bool = False,
    rerun_failed: bool = False,
    progress: Callable[[Event], None] = lambda event: None,
) -> Pilot:
    """Run a pilot of `runs` runs of the baseline, for the comparison in `out`; what is there already is not run again.

    Raises:
        UsageError: too few runs, a baseline that is no float32, a target besides, or a comparison that cannot be declared.
        RecordError: `out` holds another comparison, or the runs of this pilot and `resume` was not said.
        RunError: a run failed: a median over the others would be one over those that went well.
    """
    _demand(asked, runs=runs, slack=slack)
    declare(replace(asked, target=1.0))  # what cannot be compared is refused before anything runs
    there = read_protocol(out)
    if there is not None and there.pilot is None:
        message = f"{out} holds a comparison whose target no pilot has set"
        raise RecordError(message, hint="leave out --pilot, or give another --out", path=str(out))
    task, protocol = declare(of_pilot(asked, runs=runs))
    folder = Folder.opened(out / FOLDER, protocol, resume=resume)
    race(task, folder, rerun_failed=rerun_failed, progress=progress)
    return found(protocol, folder.records, slack=slack)


def of_pilot(asked: Asked, *, runs: int) -> Asked:
    """What a pilot asks of the comparison that it is made for: the baseline alone, other seeds, no target."""
    first = max(FIRST_SEED, max(asked.seeds) + 2)  # the seed after a comparison's is that of its warm-ups
    seeds = range(first, first + runs)
    return replace(asked, candidates=asked.candidates[:1], seeds=seeds, is_pilot=True, to_the_end=True, fail_if=())


def _demand(asked: Asked, *, runs: int, slack: float | None) -> None:
    """ProtocolError for a pilot that could set no target."""
    if asked.target is not None:
        raise ProtocolError("--pilot and --target both set the target", hint="say one of them")
    if runs < LEAST_RUNS:
        message = f"a pilot of {runs} runs sets no target"
        raise ProtocolError(message, hint=f"a median takes {LEAST_RUNS} or more: --pilot {LEAST_RUNS}", runs=runs)
    if slack is not None and not 0 <= slack < math.inf:
        raise ProtocolError(f"a slack of {slack}", hint="0 or more, in the unit of the quality: --slack X", slack=slack)
    if asked.candidates and Candidate.parse(asked.candidates[0]).policy != "fp32":
        baseline = asked.candidates[0]
        hint = "a pilot is run in float32: name fp32 first, or declare the target with --target"
        raise ProtocolError(f"the baseline {baseline!r} is not in float32", hint=hint, baseline=baseline)
