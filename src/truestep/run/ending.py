"""What an exception means for a run: its status, and the words of its record."""

from __future__ import annotations

import torch

from truestep.engine.outcome import Outcome, Reason
from truestep.engine.policy import Policy
from truestep.errors import SkipLimitError, TruestepError
from truestep.run.record import Status
from truestep.tasks import Task
from truestep.tasks.place import file_of, place_of


def ending_of(error: Exception, task: Task) -> tuple[Status, str]:
    """Status and detail of a run that `error` ended."""
    if isinstance(error, SkipLimitError):
        return ("diverged" if _diverged(error.outcome) else "stalled"), error.summary
    words = error.summary if isinstance(error, TruestepError) else str(error)
    detail = f"{type(error).__name__}: {words} ({place_of(error, file_of(task))})"
    return ("out of memory" if _out_of_memory(error) else "error"), detail


def _diverged(last: Outcome) -> bool:
    """Whether the skips that ended a run show weights or a loss that are not finite, and no fault of data or format.

    A forward that overflows in a narrow format may be sound in float32: such a run has stalled.
    """
    assert last.skip is not None
    reason, narrow = last.skip.reason, Policy.named(last.policy).low
    return reason in (Reason.PARAMETER, Reason.LOSS) or (reason is Reason.FORWARD and not narrow)


def _out_of_memory(error: Exception) -> bool:
    """Torch has a type of its own for a device's memory; for the machine's it has words alone."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
