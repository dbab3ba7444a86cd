"""What a run's record says that was made in a process of its own, one that died without a record included."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping
from typing import Any

from truestep.compare.order import Slot
from truestep.compare.process import Ended
from truestep.compare.standing import Record
from truestep.engine.counts import Counts
from truestep.ledger.records import decoded
from truestep.pages.words import counted, seconds
from truestep.run import Evaluation, RunRecord, Status, ToTarget
from truestep.run.clocks import Clocks

RERUN = ("crashed", "timed out", "out of memory", "error")
"""How runs end that --rerun-failed runs again: others would end so again."""


AGAIN = "; --resume --rerun-failed runs it again, its seconds counting as waste"
"""What the hint of a run says whose process died, once the run has a record, and where that can be made again."""


def may_be_made_again(record: Record, *, budget_seconds: float | None) -> bool:
    """Whether --rerun-failed makes this run again: its process failed before the target, and its budget is not spent.

    >>> record = {"status": "crashed", "to_target": None, "total_seconds": 2.0}
    >>> may_be_made_again(record, budget_seconds=None), may_be_made_again(record, budget_seconds=2.0)
    (True, False)
    >>> may_be_made_again(record | {"status": "diverged"}, budget_seconds=None)
    False
    """
    left = budget_seconds is None or record["total_seconds"] < budget_seconds
    return record["status"] in RERUN and record["to_target"] is None and left


def died(
    ended: Ended,
    slot: Slot,
    *,
    counts: Counts,
    where: str | None,
    words: str,
    log: str,
    budget_seconds: float | None,
    place: Mapping[str, Any],
) -> Record:
    """The record of a run whose process left none.

    What it spent after its last report is waste, of a warm-up all: a dead run is charged to its end.

    Args:
        counts: those of its ledger.
        where: where its stack stood, as `where` finds it.
        words: the last line that it wrote.
        log: where all is kept that it wrote.
        budget_seconds: what was left of the run's budget as its process began; None where none was declared.
        place: device, emulated, environment and protocol_hash of the run, and its ledger.
    """
    last = ended.last or {"clocks": {}, "to_target": None}
    known = Clocks(**last["clocks"])
    spent = next((each for each in (ended.run_seconds, ended.warmup_seconds) if each is not None), 0.0)
    clocks = known.plus(Clocks(waste=max(0.0, spent - known.total)))
    when = f"{_when(ended, counts.attempts)}{'' if where is None else f', in {where}'}"
    status, detail, hint = _failed(ended, when=when, words=words)
    tried = {"status": status, "to_target": last["to_target"], "total_seconds": clocks.total}
    again = AGAIN if may_be_made_again(tried, budget_seconds=budget_seconds) else ""
    evaluations = tuple(Evaluation(**each | {"quality": decoded(each["quality"])}) for each in ended.evaluations)
    return RunRecord(
        candidate=slot.candidate,
        seed=slot.seed,
        status=status,
        detail=detail,
        hint=hint or f"its output is in {log}{again}",
        counts=counts,
        clocks=clocks,
        total_seconds=clocks.total,
        cpu_seconds=None,
        to_target=None if last["to_target"] is None else ToTarget(**last["to_target"]),
        evaluations=evaluations,
        test_quality=None,
        data_digest=None,
        initial_digest=None,
        weights_digest=None,
        **place,
    ).as_dict()


def with_process(record: Record, ended: Ended, *, at_once: int) -> Record:
    """The record, and what is known of its process."""
    return dict(record) | {
        "process": {
            "startup_seconds": ended.startup_seconds,
            "warmup_seconds": ended.warmup_seconds,
            "wall_seconds": ended.wall_seconds,
            "peak_memory_bytes": ended.peak_memory_bytes,
            "peak_device_bytes": ended.peak_device_bytes,
            "exit_code": ended.code if ended.code >= 0 else None,
            "signal": None if ended.code >= 0 else _signal(ended.code),
            "at_once": at_once,
            "earlier": [],
        }
    }


def charged(record: Record, earlier: Record) -> Record:
    """The record of a run that an `earlier` one failed to make: all its seconds are waste, and the time to target is later.

    Its CPU time stays that of the last try alone, as `standing.cpu_share` reads it: a dead process leaves none to be added.

    >>> process = {"earlier": []}
    >>> first = {"status": "crashed", "detail": "SIGSEGV", "total_seconds": 2.0}
    >>> again = {"total_seconds": 3.0, "clocks": {"train": 3.0, "waste": 0.0}, "to_target": {"seconds": 3.0}}
    >>> both = charged(again | {"process": process}, first | {"process": process})
    >>> both["clocks"], both["to_target"], both["total_seconds"]
    ({'train': 3.0, 'waste': 2.0}, {'seconds': 5.0}, 5.0)
    >>> both["process"]["earlier"]
    [{'status': 'crashed', 'detail': 'SIGSEGV', 'total_seconds': 2.0}]
    """
    spent = earlier["total_seconds"]
    tried = earlier["process"]["earlier"]
    own = spent - math.fsum(each["total_seconds"] for each in tried)
    before = [*tried, {"status": earlier["status"], "detail": earlier["detail"], "total_seconds": own}]
    target = record["to_target"]
    return dict(record) | {
        "clocks": record["clocks"] | {"waste": record["clocks"]["waste"] + spent},
        "total_seconds": record["total_seconds"] + spent,
        "to_target": None if target is None else target | {"seconds": target["seconds"] + spent},
        "process": record["process"] | {"earlier": before},
    }


def where(said: str, file: str | None) -> str | None:
    '''Where a stack stood that Python has dumped as the process was ended: its innermost line in `file`, else of all.

    >>> said = """Fatal Python error: Segmentation fault
    ...
    ... Current thread 0x7f (most recent call first):
    ...   File "/usr/lib/ctypes.py", line 5 in string_at
    ...   File "/my/task.py", line 7 in loss
    ... """
    >>> where(said, "/my/task.py"), where(said, None), where("", None)
    ('/my/task.py, line 7 (loss)', '/usr/lib/ctypes.py, line 5 (string_at)', None)
    '''
    _, _, stack = said.rpartition("(most recent call first):")
    frames = re.findall(r'File "([^"<]+)", line (\d+) in (\S+)', stack)
    path, line, function = next((frame for frame in frames if frame[0] == file), (frames or [(None, None, None)])[0])
    return None if path is None else f"{path}, line {line} ({function})"


def _failed(ended: Ended, *, when: str, words: str) -> tuple[Status, str, str | None]:
    if ended.report is not None:
        return ended.report["status"], ended.report["detail"], ended.report["hint"]
    if ended.limit_seconds is not None:
        of = " of startup and warm-up" if ended.run_seconds is None else ""
        silence = f"nothing was heard of it for {seconds(ended.silent_seconds)}"
        return "timed out", f"ended after {ended.limit_seconds:g} s, the limit{of}, {when}; {silence}", None
    memory = "" if ended.peak_memory_bytes is None else f"; it had held {ended.peak_memory_bytes / 2**20:,.0f} MiB"
    if ended.code >= 0:
        last = f"; its last words: {words[:200]}" if words else ""
        return "crashed", f"the process ended itself with exit code {ended.code} {when}, and left no record{memory}{last}", None
    told = f"the process was ended by {_signal(ended.code)} {when}{memory}"
    if ended.killed_for_memory:
        return "out of memory", f"{told}; the system has killed a process for want of memory", None
    kill = -ended.code == getattr(signal, "SIGKILL", None)
    return "crashed", f"{told}{'; so ends what a system kills for want of memory' if kill else ''}", None


def _when(ended: Ended, attempts: int) -> str:
    if ended.warmup_seconds is None:
        return "as it started"
    if ended.run_seconds is None:
        return "in its warm-up"
    return f"after {counted(attempts, 'attempt')}" if attempts else "before its first attempt had ended"


def _signal(code: int) -> str:
    """A signal by its name and in words.

    >>> _signal(-9)
    'SIGKILL (Killed)'
    """
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time one
        return f"signal {-code}"
    return f"{name} ({signal.strsignal(-code)})"
